#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace wavepool::audio {

/// Halves a sample rate by a half-band filter. The resampler begins with it where the rate is far
/// above the wanted one. Output sample n lies at input sample 2n; n samples become (n + 1) / 2. The
/// bits do not depend on how the input is divided over the calls.
class HalfBandDecimator {
  public:
    /// Flat, and free of aliases from above, below `band` Hz; above it neither is promised. The
    /// further `band` is below a quarter of the rate, the less there is to compute.
    HalfBandDecimator(int sample_rate, int band);

    /// Appends every output sample whose neighborhood is complete.
    void push(std::span<const float> samples, std::vector<float>& out);
    /// Appends the rest. Nothing may be pushed after.
    void finish(std::vector<float>& out);

  private:
    void produce(std::vector<float>& out);

    // The filter's coefficients at odd distances from its center, the nearest first; it is
    // symmetric. Those at even distances are zero, except 0.5 at the center.
    std::vector<float> factors_;
    // Even input samples from the next output sample on, and odd ones from the first that it needs.
    std::vector<float> even_;
    std::vector<float> odd_;
    bool next_is_odd_ = false;
};

}  // namespace wavepool::audio
