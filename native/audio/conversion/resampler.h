#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "audio/conversion/half_band_decimator.h"
#include "audio/conversion/lanes.h"

namespace wavepool::audio {

/// Any rate → 16 kHz by a windowed-sinc polyphase filter, after half-band filters where the rate is
/// high: flat to 7.2 kHz (90 % of the lower Nyquist frequency), more than 80 dB down from 8 kHz on.
/// The ratio is exact, the delay is compensated, and n samples become round(n · 16000 / rate). Each
/// output sample depends on absolute positions only, so the bits do not depend on how the input is
/// divided over the calls.
class Resampler {
  public:
    /// `sample_rate` in Hz, kMinSampleRate to kMaxSampleRate.
    explicit Resampler(int sample_rate);

    /// Appends every output sample whose neighborhood is complete.
    void push(std::span<const float> samples, std::vector<float>& out);
    /// Appends the rest. Nothing may be pushed after.
    void finish(std::vector<float>& out);

  private:
    void build_filters(int sample_rate);
    void push_decimated(std::span<const float> samples, std::vector<float>& out);
    void produce(std::int64_t end, std::vector<float>& out);
    bool produce_group(std::int64_t end, std::vector<float>& out);
    void advance();
    [[nodiscard]] const float* window_at(std::int64_t position) const;
    [[nodiscard]] std::span<const Lanes> filter_of(std::int64_t phase) const;
    [[nodiscard]] float sample_at(const float* window) const;

    // Constant after construction.
    std::int64_t source_rate_;
    // The polyphase filter, whose input is the output of the decimators. up_ / down_ is its ratio
    // in lowest terms.
    std::int64_t up_ = 1;
    std::int64_t down_ = 1;
    std::size_t taps_ = 0;     ///< per phase, a multiple of the vector width
    std::int64_t centre_ = 0;  ///< the tap that lies at or just before the output sample
    std::int64_t phases_ = 0;  ///< up_, or kMaxPhases, then two neighbors are interpolated
    std::vector<Lanes> filters_;

    std::vector<HalfBandDecimator> decimators_;
    std::vector<std::vector<float>> decimated_;  ///< output of each decimator for the last push
    std::int64_t source_end_ = 0;                ///< samples pushed so far
    std::vector<float> history_;                 ///< input from history_start_ on
    std::int64_t history_start_ = 0;             ///< absolute; negative: the zeros before the input
    std::int64_t input_end_ = 0;                 ///< samples that the polyphase filter has got
    std::int64_t output_end_ = 0;                ///< samples produced so far
    std::int64_t position_ = 0;  ///< place of the next output sample: whole input samples …
    std::int64_t fraction_ = 0;  ///< … and a rest in units of 1 / up_
};

}  // namespace wavepool::audio
