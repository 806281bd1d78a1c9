#include "models/whisper/decoding/guards.h"

#include <algorithm>
#include <cstddef>

#include "models/whisper/checkpoint/checkpoint.h"

namespace wavepool::whisper {

int audio_frames(std::int64_t samples) noexcept {
    constexpr std::int64_t kFrameSamples = kSampleRate / 50;
    constexpr std::int64_t kSilence = 128;
    constexpr std::int64_t kStep = 256;
    const std::int64_t needed = (samples + kFrameSamples - 1) / kFrameSamples + kSilence;
    return static_cast<int>(std::min((needed + kStep - 1) / kStep * kStep, kAudioContext));
}

bool ends_in_loop(std::span<const std::int32_t> tokens) noexcept {
    for (std::size_t period = 1; period <= tokens.size() / 2; ++period) {
        const std::size_t times = period >= 3 ? 2 : period == 2 ? 3 : 4;
        const std::size_t length = period * times;
        if (length > tokens.size()) continue;
        const auto tail = tokens.last(length);
        if (std::ranges::equal(tail.first(length - period), tail.last(length - period))) {
            return true;
        }
    }
    return false;
}

}  // namespace wavepool::whisper
