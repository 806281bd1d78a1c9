#pragma once

#include <cstdint>
#include <span>

namespace wavepool::whisper {

/// Shorter clips are padded with silence to this length: whisper.cpp refuses less than 100 ms and
/// reads 200 samples beyond the first.
inline constexpr std::int64_t kShortestSamples = 8000;

/// A reduced context is trusted above this; on the test speech it was as good as the full one
/// there.
inline constexpr double kTrustedLogProbability = -1.0;

/// How many frames of audio the encoder is given for a request: its own, 2.56 s of silence after
/// them, rounded up to 5.12 s (flash attention then has no rows without a frame), at most 30 s. The
/// silence tells the model that the speech has ended; with less it repeats itself (docs/models.md).
[[nodiscard]] int audio_frames(std::int64_t samples) noexcept;

/// Whether text tokens end in a loop: three or more twice in a row, two of them three times, or one
/// four times.
[[nodiscard]] bool ends_in_loop(std::span<const std::int32_t> tokens) noexcept;

}  // namespace wavepool::whisper
