#include "audio/conversion/half_band_decimator.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "audio/conversion/kaiser_window.h"
#include "audio/conversion/lanes.h"

namespace wavepool::audio {
namespace {

constexpr double kAttenuationDb = 96;
// Vectors of output samples that are summed at once.
constexpr std::size_t kUnroll = 4;
constexpr std::size_t kAtOnce = kUnroll * kLanes;

}  // namespace

HalfBandDecimator::HalfBandDecimator(int sample_rate, int band) {
    // The filter may fall off from `band` up to the mirror image of `band` about a quarter of the
    // rate.
    const double transition =
        2 * std::numbers::pi * (0.5 - 2.0 * static_cast<double>(band) / sample_rate);
    const double half_width = KaiserWindow::half_width(kAttenuationDb, transition) + 1;
    const KaiserWindow window(kAttenuationDb);
    std::vector<double> factors;
    for (double distance = 1; distance < half_width; distance += 2)
        factors.push_back(0.5 * sinc(distance / 2) * window(distance / half_width));
    // A constant passes exactly.
    const double scale = 0.25 / std::accumulate(factors.begin(), factors.end(), 0.0);
    for (const double factor : factors) factors_.push_back(static_cast<float>(factor * scale));
    odd_.assign(factors_.size(), 0.0F);
}

void HalfBandDecimator::push(std::span<const float> samples, std::vector<float>& out) {
    if (next_is_odd_ && !samples.empty()) {
        odd_.push_back(samples.front());
        samples = samples.subspan(1);
        next_is_odd_ = false;
    }
    const std::size_t pairs = samples.size() / 2;
    const std::size_t evens = even_.size();
    const std::size_t odds = odd_.size();
    even_.resize(evens + pairs);
    odd_.resize(odds + pairs);
    for (std::size_t i = 0; i < pairs; ++i) {
        even_[evens + i] = samples[2 * i];
        odd_[odds + i] = samples[2 * i + 1];
    }
    if (samples.size() % 2 == 1) {
        even_.push_back(samples.back());
        next_is_odd_ = true;
    }
    produce(out);
}

void HalfBandDecimator::finish(std::vector<float>& out) {
    odd_.insert(odd_.end(), 2 * factors_.size(), 0.0F);
    produce(out);
}

void HalfBandDecimator::produce(std::vector<float>& out) {
    const std::size_t reach = factors_.size();
    if (odd_.size() < 2 * reach) return;
    const std::size_t count = std::min(even_.size(), odd_.size() - 2 * reach + 1);
    const std::size_t start = out.size();
    out.resize(start + count);
    float* to = out.data() + start;
    const float* even = even_.data();
    const float* after = odd_.data() + reach;
    std::size_t i = 0;
    for (; i + kAtOnce <= count; i += kAtOnce) {
        std::array<Lanes, kUnroll> sums;
        for (std::size_t u = 0; u < kUnroll; ++u) sums[u] = 0.5F * load(even + i + u * kLanes);
        for (std::size_t j = 0; j < reach; ++j)
            for (std::size_t u = 0; u < kUnroll; ++u) {
                const float* at = after + i + u * kLanes;
                sums[u] += factors_[j] * (load(at - 1 - j) + load(at + j));
            }
        for (std::size_t u = 0; u < kUnroll; ++u) store(sums[u], to + i + u * kLanes);
    }
    for (; i < count; ++i) {
        float sum = 0.5F * even[i];
        for (std::size_t j = 0; j < reach; ++j)
            sum += factors_[j] * (*(after + i - 1 - j) + after[i + j]);
        to[i] = sum;
    }
    even_.erase(even_.begin(), even_.begin() + static_cast<std::ptrdiff_t>(count));
    odd_.erase(odd_.begin(), odd_.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace wavepool::audio
