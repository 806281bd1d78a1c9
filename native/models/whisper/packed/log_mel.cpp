#include "models/whisper/packed/log_mel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "kernels/float8.h"

namespace wavepool::whisper {
namespace {

constexpr std::int64_t kHalf = LogMel::kWindow / 2;
/// Samples of a frame that differ once it is folded in the middle: sums for cosines, differences
/// for sines.
constexpr std::int64_t kFolded = kHalf + 1;
constexpr std::int64_t kVectors = 2;
constexpr std::int64_t kBlock = kVectors * kLanes;
constexpr std::int64_t kPadded = (LogMel::kFrequencies + kBlock - 1) / kBlock * kBlock;
/// Frames that are transformed together.
constexpr std::int64_t kTogether = 4;

/// [sample][frame side by side], sums and then differences.
using Folded = std::array<float, 2 * kFolded * kTogether>;

/// sum[frame][vector] of table columns times samples.
inline void accumulate(const float* table, const float* samples,
                       Float8 (&sum)[kTogether][kVectors]) noexcept {
    for (auto& frame : sum) {
        for (Float8& each : frame) each = broadcast(0.0F);
    }
    for (std::int64_t n = 0; n < kFolded; ++n) {
        const Float8 first = load(table + n * kPadded);
        const Float8 second = load(table + n * kPadded + kLanes);
#pragma GCC unroll 4
        for (std::int64_t f = 0; f < kTogether; ++f) {
            const Float8 x = broadcast(samples[n * kTogether + f]);
            sum[f][0] = fused(x, first, sum[f][0]);
            sum[f][1] = fused(x, second, sum[f][1]);
        }
    }
}

/// The sample at `index` of a clip whose beginning is mirrored and whose end is silence.
float sample_at(std::span<const float> clip, std::int64_t index) noexcept {
    const auto at = static_cast<std::size_t>(index < 0 ? -index : index);
    return at < clip.size() ? clip[at] : 0.0F;
}

}  // namespace

LogMel::LogMel(Arena& arena, const std::vector<float>& filters, std::int64_t bins)
    : bins_(bins),
      window_(arena.take<float>(kWindow)),
      cosines_(arena.take<float>(kFolded * kPadded)),
      sines_(arena.take<float>(kFolded * kPadded)),
      weights_(arena.take<float>(bins * kFrequencies)) {
    if (arena.allocation() == Allocation::kPlanned) return;
    constexpr double kTurn = 2 * std::numbers::pi / static_cast<double>(kWindow);
    for (std::int64_t n = 0; n < kWindow; ++n) {
        window_[static_cast<std::size_t>(n)] =
            static_cast<float>(0.5 * (1 - std::cos(kTurn * static_cast<double>(n))));
    }
    for (std::int64_t n = 0; n < kFolded; ++n) {
        for (std::int64_t k = 0; k < kFrequencies; ++k) {
            const double angle = kTurn * static_cast<double>(n * k % kWindow);
            const auto at = static_cast<std::size_t>(n * kPadded + k);
            cosines_[at] = static_cast<float>(std::cos(angle));
            sines_[at] = static_cast<float>(std::sin(angle));
        }
    }
    std::ranges::copy(filters, weights_.begin());
    const auto is_used = [](float weight) { return weight != 0.0F; };
    for (std::int64_t bin = 0; bin < bins; ++bin) {
        const float* row = weights_.data() + bin * kFrequencies;
        const float* begin = std::find_if(row, row + kFrequencies, is_used);
        const float* end = row + kFrequencies;
        while (end != begin && !is_used(end[-1])) --end;
        filters_.push_back({.begin = begin - row, .end = end - row, .weights = begin});
    }
}

void LogMel::transform(const float* folded, float* powers) const noexcept {
    for (std::int64_t k = 0; k < kPadded; k += kBlock) {
        Float8 real[kTogether][kVectors];
        Float8 imaginary[kTogether][kVectors];
        accumulate(cosines_.data() + k, folded, real);
        accumulate(sines_.data() + k, folded + kFolded * kTogether, imaginary);
        for (std::int64_t f = 0; f < kTogether; ++f) {
            for (std::int64_t v = 0; v < kVectors; ++v) {
                const Float8 square = imaginary[f][v] * imaginary[f][v];
                store(powers + f * kPadded + k + v * kLanes,
                      fused(real[f][v], real[f][v], square));
            }
        }
    }
}

void LogMel::compute(std::span<const float> clip, std::int64_t first, std::int64_t count,
                     float* out) const noexcept {
    Folded folded;
    std::array<float, kTogether * kPadded> powers;
    std::array<float, kWindow> frame;
    for (std::int64_t at = 0; at < count; at += kTogether) {
        const std::int64_t together = std::min(kTogether, count - at);
        folded.fill(0);
        for (std::int64_t f = 0; f < together; ++f) {
            const std::int64_t start = (first + at + f) * kHop - kHalf;
            for (std::int64_t n = 0; n < kWindow; ++n) {
                frame[static_cast<std::size_t>(n)] =
                    window_[static_cast<std::size_t>(n)] * sample_at(clip, start + n);
            }
            float* sums = folded.data() + f;
            float* differences = sums + kFolded * kTogether;
            sums[0] = frame[0];
            sums[kHalf * kTogether] = frame[kHalf];
            for (std::int64_t n = 1; n < kHalf; ++n) {
                const float left = frame[static_cast<std::size_t>(n)];
                const float right = frame[static_cast<std::size_t>(kWindow - n)];
                sums[n * kTogether] = left + right;
                differences[n * kTogether] = left - right;
            }
        }
        transform(folded.data(), powers.data());
        for (std::int64_t f = 0; f < together; ++f) {
            const float* power = powers.data() + f * kPadded;
            float* to = out + (at + f) * bins_;
            for (const Filter& filter : filters_) {
                double sum = 0;
                for (std::int64_t k = filter.begin; k < filter.end; ++k) {
                    sum += static_cast<double>(power[k] * filter.weights[k - filter.begin]);
                }
                *to++ = std::log10(std::max(static_cast<float>(sum), 1e-10F));
            }
        }
    }
}

}  // namespace wavepool::whisper
