#include "audio/conversion/resampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

#include "audio/conversion/kaiser_window.h"
#include "audio/conversion/lanes.h"
#include "framework/sample_store.h"

namespace wavepool::audio {
namespace {

// Edges as fractions of the lower Nyquist frequency, and the Kaiser window for the stop band.
constexpr double kPassEdge = 0.90;
constexpr double kStopEdge = 1.00;
constexpr double kAttenuationDb = 90;

// Ratios with more phases than this (44056 Hz, 47999 Hz) interpolate: with 1024 phases the error is
// below -110 dB.
constexpr std::int64_t kMaxPhases = 1024;

// The inner loop: two independent sums of eight lanes per window, one after the other along the
// filter, so that a window's sum has the same bits however many are worked on at once.
constexpr std::size_t kUnroll = 2;
// Windows that share the loads of a filter.
constexpr std::size_t kGroup = 5;

// out[w] = the filter over the window that begins at first + w * distance.
template <std::size_t Windows>
std::array<float, Windows> filtered(const float* first, std::size_t distance,
                                    std::span<const Lanes> filter) {
    std::array<std::array<Lanes, kUnroll>, Windows> sums;
    for (auto& each : sums) each.fill(Lanes{});
    for (std::size_t i = 0; i < filter.size(); i += kUnroll)
        for (std::size_t u = 0; u < kUnroll; ++u) {
            const Lanes factors = filter[i + u];
            for (std::size_t w = 0; w < Windows; ++w)
                sums[w][u] += factors * load(first + w * distance + (i + u) * kLanes);
        }
    std::array<float, Windows> out;
    for (std::size_t w = 0; w < Windows; ++w) out[w] = sum_of(sums[w][0] + sums[w][1]);
    return out;
}

}  // namespace

Resampler::Resampler(int sample_rate) : source_rate_(sample_rate) {
    // A half-band filter, short where the rate is this high, is less work than a long one here.
    while (sample_rate % 2 == 0 && 2 * sample_rate >= 5 * kSampleRate) {
        decimators_.emplace_back(sample_rate, kSampleRate / 2);
        sample_rate /= 2;
    }
    decimated_.resize(decimators_.size());
    const std::int64_t divisor = std::gcd(sample_rate, kSampleRate);
    up_ = kSampleRate / divisor;
    down_ = sample_rate / divisor;
    if (up_ == down_) return;
    build_filters(sample_rate);
    history_start_ = -centre_;
    history_.assign(static_cast<std::size_t>(centre_), 0.0F);
}

void Resampler::build_filters(int sample_rate) {
    // All in units of input samples.
    const double nyquist = std::min(1.0, static_cast<double>(kSampleRate) / sample_rate) / 2;
    const double cutoff = nyquist * (kPassEdge + kStopEdge) / 2;
    const double transition = 2 * std::numbers::pi * nyquist * (kStopEdge - kPassEdge);
    const double half_width = KaiserWindow::half_width(kAttenuationDb, transition);

    centre_ = static_cast<std::int64_t>(std::ceil(half_width));
    const auto needed = static_cast<std::size_t>(2 * centre_ + 1);
    taps_ = (needed + kLanes * kUnroll - 1) / (kLanes * kUnroll) * (kLanes * kUnroll);
    phases_ = std::min(up_, kMaxPhases);

    static const KaiserWindow window(kAttenuationDb);
    // There is one filter more than phases_: the last equals the first, one sample later, and is
    // there for the interpolation.
    filters_.assign(static_cast<std::size_t>(phases_ + 1) * (taps_ / kLanes), Lanes{});
    std::vector<double> row(needed);
    for (std::int64_t phase = 0; phase <= phases_; ++phase) {
        const double offset = static_cast<double>(phase) / static_cast<double>(phases_);
        for (std::size_t tap = 0; tap < needed; ++tap) {
            const double distance =
                static_cast<double>(tap) - static_cast<double>(centre_) - offset;
            row[tap] = sinc(2 * cutoff * distance) * window(distance / half_width);
        }
        // Every phase passes a constant exactly: no ripple at the rate of the phases.
        const double scale = 1 / std::accumulate(row.begin(), row.end(), 0.0);
        Lanes* filter = filters_.data() + static_cast<std::size_t>(phase) * (taps_ / kLanes);
        for (std::size_t tap = 0; tap < needed; ++tap)
            filter[tap / kLanes][tap % kLanes] = static_cast<float>(row[tap] * scale);
    }
}

void Resampler::push(std::span<const float> samples, std::vector<float>& out) {
    source_end_ += static_cast<std::int64_t>(samples.size());
    for (std::size_t stage = 0; stage < decimators_.size(); ++stage) {
        decimated_[stage].clear();
        decimators_[stage].push(samples, decimated_[stage]);
        samples = decimated_[stage];
    }
    push_decimated(samples, out);
}

void Resampler::push_decimated(std::span<const float> samples, std::vector<float>& out) {
    input_end_ += static_cast<std::int64_t>(samples.size());
    if (up_ == down_) {
        output_end_ = input_end_;
        out.insert(out.end(), samples.begin(), samples.end());
        return;
    }
    history_.insert(history_.end(), samples.begin(), samples.end());
    produce(input_end_, out);
}

void Resampler::finish(std::vector<float>& out) {
    for (std::size_t stage = 0; stage < decimators_.size(); ++stage) {
        decimated_[stage].clear();
        if (stage > 0) decimators_[stage].push(decimated_[stage - 1], decimated_[stage]);
        decimators_[stage].finish(decimated_[stage]);
    }
    if (!decimators_.empty()) push_decimated(decimated_.back(), out);

    const std::int64_t total = (2 * source_end_ * kSampleRate + source_rate_) / (2 * source_rate_);
    const std::size_t before = out.size();
    const std::int64_t wanted = total - output_end_;
    if (up_ != down_) {
        // Zeros after the input, as there were before; a window reaches at most taps_ beyond it.
        const std::int64_t zeros = static_cast<std::int64_t>(taps_) + 1;
        history_.insert(history_.end(), static_cast<std::size_t>(zeros), 0.0F);
        produce(input_end_ + zeros, out);
    }
    out.resize(before + static_cast<std::size_t>(wanted), 0.0F);
}

void Resampler::produce(std::int64_t end, std::vector<float>& out) {
    const auto taps = static_cast<std::int64_t>(taps_);
    while (produce_group(end, out)) {
    }
    while (position_ - centre_ + taps <= end) {
        out.push_back(sample_at(window_at(position_)));
        advance();
    }
    const std::int64_t keep_from = std::min(position_ - centre_, end);
    history_.erase(history_.begin(), history_.begin() + (keep_from - history_start_));
    history_start_ = keep_from;
}

// Every up_ samples the same phase comes again, down_ input samples later: kGroup such rounds at
// once.
bool Resampler::produce_group(std::int64_t end, std::vector<float>& out) {
    const std::int64_t next = position_ + static_cast<std::int64_t>(kGroup) * down_;
    // The output samples are down_ / up_ apart; `next` is one too far.
    const std::int64_t last = next - (down_ - fraction_ + up_ - 1) / up_;
    if (phases_ != up_ || last - centre_ + static_cast<std::int64_t>(taps_) > end) return false;
    const auto up = static_cast<std::size_t>(up_);
    const std::size_t start = out.size();
    out.resize(start + kGroup * up);
    for (std::size_t i = 0; i < up; ++i) {
        const auto samples = filtered<kGroup>(window_at(position_), static_cast<std::size_t>(down_),
                                              filter_of(fraction_));
        for (std::size_t w = 0; w < kGroup; ++w) out[start + w * up + i] = samples[w];
        advance();
    }
    // The loop above has counted the samples of one round.
    output_end_ += static_cast<std::int64_t>(kGroup - 1) * up_;
    position_ = next;
    return true;
}

const float* Resampler::window_at(std::int64_t position) const {
    return history_.data() + (position - centre_ - history_start_);
}

void Resampler::advance() {
    ++output_end_;
    fraction_ += down_;
    position_ += fraction_ / up_;
    fraction_ %= up_;
}

std::span<const Lanes> Resampler::filter_of(std::int64_t phase) const {
    const std::size_t length = taps_ / kLanes;
    return std::span(filters_).subspan(static_cast<std::size_t>(phase) * length, length);
}

float Resampler::sample_at(const float* window) const {
    if (phases_ == up_) return filtered<1>(window, 0, filter_of(fraction_))[0];
    const std::int64_t scaled = fraction_ * phases_;
    const std::int64_t phase = scaled / up_;
    const float share = static_cast<float>(scaled - phase * up_) / static_cast<float>(up_);
    const float low = filtered<1>(window, 0, filter_of(phase))[0];
    const float high = filtered<1>(window, 0, filter_of(phase + 1))[0];
    return low + share * (high - low);
}

}  // namespace wavepool::audio
