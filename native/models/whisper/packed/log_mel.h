#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/whisper/packed/layers.h"

namespace wavepool::whisper {

/// Log-mel spectrogram as the models were trained with: frames of 25 ms every 10 ms, Hann window,
/// power, mel filters, log10. Immutable.
class LogMel {
  public:
    static constexpr std::int64_t kWindow = 400;
    static constexpr std::int64_t kHop = 160;
    static constexpr std::int64_t kFrequencies = kWindow / 2 + 1;
    /// log10 of the least power that counts: what silence has.
    static constexpr float kSilence = -10;

    LogMel() = default;
    /// `filters` is [bins][kFrequencies]; not read with a planned arena.
    LogMel(Arena& arena, const std::vector<float>& filters, std::int64_t bins);

    [[nodiscard]] std::int64_t bins() const noexcept { return bins_; }

    /// Frames that hear something of a clip; all later ones are silence.
    [[nodiscard]] static constexpr std::int64_t frames(std::int64_t samples) noexcept {
        return (samples + kWindow / 2) / kHop + 1;
    }

    /// The logarithms of `count` frames from `first` on of a clip of more than kWindow / 2 samples:
    /// out[frame][bin]. Frame i is centered at sample i · kHop; the beginning of the clip is
    /// mirrored, silence follows its end.
    void compute(std::span<const float> clip, std::int64_t first, std::int64_t count,
                 float* out) const noexcept;

    /// What the encoder hears of a logarithm when `loudest` is the largest of the clip.
    [[nodiscard]] static float scaled(float logarithm, float loudest) noexcept {
        constexpr float kRange = 8;
        const float floor = loudest - kRange;
        return ((logarithm > floor ? logarithm : floor) + 4) / 4;
    }

  private:
    struct Filter {
        std::int64_t begin = 0;  ///< first frequency that counts
        std::int64_t end = 0;
        const float* weights = nullptr;  ///< of begin to end
    };

    void transform(const float* folded, float* powers) const noexcept;

    std::int64_t bins_ = 0;
    std::span<float> window_;
    std::span<float> cosines_;  ///< [sample][padded frequency]
    std::span<float> sines_;
    std::span<float> weights_;
    std::vector<Filter> filters_;
};

}  // namespace wavepool::whisper
