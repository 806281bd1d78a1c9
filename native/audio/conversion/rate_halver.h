#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace wavepool::audio {

/// Half of any rate by a half-band filter: what comes first where the rate is far above the one
/// that is wanted. Output sample n lies at input sample 2n; n samples become (n + 1) / 2. The bits
/// do not depend on how the input is divided over the calls.
class RateHalver {
  public:
    /// Flat, and free of aliases from above, below `band` Hz; above it neither is promised. The
    /// further `band` is below a quarter of the rate, the less there is to compute.
    RateHalver(int sample_rate, int band);

    /// Appends every output sample whose neighborhood is complete.
    void push(std::span<const float> samples, std::vector<float>& out);
    /// Appends the rest. Nothing may be pushed after.
    void finish(std::vector<float>& out);

  private:
    void produce(std::vector<float>& out);

    // Of the odd distances, the nearest first, on either side alike. Those of the even ones are
    // zero, but for the half in the middle.
    std::vector<float> factors_;
    // The samples from the next output sample on, and the odd ones that it needs before that.
    std::vector<float> even_;
    std::vector<float> odd_;
    bool next_is_odd_ = false;
};

}  // namespace wavepool::audio
