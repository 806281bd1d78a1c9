#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "models/silero_vad/kernels.h"
#include "models/silero_vad/weights.h"

namespace wavepool::silero_vad {

/// The part of the network without memory: from a window's samples to what it adds to the gates of
/// the LSTM. Windows of any inputs go through together; none influences another's bits.
class Encoder {
  public:
    /// Most windows per run; small enough for the activations to stay in the second-level cache.
    static constexpr std::size_t kMaxWindows = 24;

    Encoder();

    /// Where the context and the samples of window `index` go, before `run`.
    [[nodiscard]] std::span<float, kInputSamples> samples(std::size_t index) noexcept {
        return std::span<float, kInputSamples>(samples_.data() + index * kSamples, kInputSamples);
    }

    /// Writes kGates values per window for the first `count` windows.
    void run(const Weights& weights, std::size_t count, Columns gates) noexcept;

    /// Of every encoder.
    [[nodiscard]] static std::size_t bytes() noexcept;

  private:
    /// The transform's right side sees the window's end mirrored.
    static constexpr std::size_t kMirrored = 64;
    static constexpr std::size_t kSamples = kInputSamples + kMirrored;

    void fold_frame(const Weights& weights, std::size_t frame, std::size_t count) noexcept;
    void transform_frame(const Weights& weights, std::size_t frame, std::size_t count) noexcept;
    void convolve_frames(const Weights& weights, std::size_t count) noexcept;

    std::vector<float> samples_;
    std::vector<float> folded_;
    std::vector<float> spectrum_;
    std::vector<float> magnitudes_;
    std::vector<float> points_;
    std::vector<float> products_;
    std::vector<float> conv1_;
    std::vector<float> conv2_;
    std::vector<float> conv3_;
    std::vector<float> conv4_;
};

}  // namespace wavepool::silero_vad
