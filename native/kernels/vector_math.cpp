#include "kernels/vector_math.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace wavepool::kernels {
namespace {

constexpr std::size_t kLanes = 8;

/// e^x by range reduction to [-ln2/2, ln2/2] and a polynomial; relative error below 2e-7. Values
/// outside [-87, 88] count as that bound. Straight-line code: a loop around it becomes vectors.
inline float exponential(float x) noexcept {
    constexpr float kRound = 12582912.0F;  // 1.5 · 2^23: adding it rounds to an integer
    x = x < -87.0F ? -87.0F : x;
    x = x > 88.0F ? 88.0F : x;
    const float shifted = std::fma(x, 1.44269504F, kRound);
    const float n = shifted - kRound;
    float r = std::fma(n, -0.693359375F, x);  // ln 2 in two parts
    r = std::fma(n, 2.12194440e-4F, r);
    float p = 1.9875691500e-4F;
    p = std::fma(p, r, 1.3981999507e-3F);
    p = std::fma(p, r, 8.3334519073e-3F);
    p = std::fma(p, r, 4.1665795894e-2F);
    p = std::fma(p, r, 1.6666665459e-1F);
    p = std::fma(p, r, 5.0000001201e-1F);
    p = std::fma(p, r * r, r) + 1.0F;
    const std::int32_t power = std::bit_cast<std::int32_t>(shifted) - 0x4B400000;
    return p * std::bit_cast<float>((power + 127) << 23);
}

inline float hyperbolic_tangent(float x) noexcept {
    const float magnitude = std::fabs(x);
    // Near 0 the quotient below cancels; quiet audio lives there.
    const float square = x * x;
    float p = -5.70498872745e-3F;
    p = std::fma(p, square, 2.06390887954e-2F);
    p = std::fma(p, square, -5.37397155531e-2F);
    p = std::fma(p, square, 1.33314422036e-1F);
    p = std::fma(p, square, -3.33332819422e-1F);
    const float small = std::fma(p * square, x, x);
    const float large = 1.0F - 2.0F / (exponential(2.0F * magnitude) + 1.0F);
    return magnitude < 0.625F ? small : std::copysign(large, x);
}

/// x · Φ(x) as max(x, 0) − |x|/2 · erfc(|x|/√2), with erfc by Abramowitz and Stegun 7.1.26: no
/// cancellation on either side.
inline float gelu(float x) noexcept {
    const float magnitude = std::fabs(x);
    const float t = 1.0F / std::fma(magnitude, 0.3275911F * 0.707106781F, 1.0F);
    float p = 1.061405429F;
    p = std::fma(p, t, -1.453152027F);
    p = std::fma(p, t, 1.421413741F);
    p = std::fma(p, t, -0.284496736F);
    p = std::fma(p, t, 0.254829592F);
    const float complement = p * t * exponential(-0.5F * x * x);
    return std::fma(-0.5F * magnitude, complement, x > 0.0F ? x : 0.0F);
}

/// Folds lane by lane, then over the lanes: one order on every machine.
template <typename Fold>
inline float fold_lanes(std::span<const float> values, float start, Fold fold) noexcept {
    std::array<float, kLanes> lanes;
    lanes.fill(start);
    const std::size_t whole = values.size() / kLanes * kLanes;
    for (std::size_t i = 0; i < whole; i += kLanes) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            lanes[lane] = fold(lanes[lane], values[i + lane]);
        }
    }
    for (std::size_t i = whole; i < values.size(); ++i) {
        lanes[i - whole] = fold(lanes[i - whole], values[i]);
    }
    float result = start;
    for (const float lane : lanes) result = fold(result, lane);
    return result;
}

}  // namespace

float largest(std::span<const float> values) noexcept {
    return fold_lanes(values, -std::numeric_limits<float>::infinity(),
                      [](float a, float b) { return b > a ? b : a; });
}

float log_sum_exp(std::span<const float> values) noexcept {
    const float top = largest(values);
    if (std::isinf(top)) return top;
    std::array<float, kLanes> lanes{};
    const std::size_t whole = values.size() / kLanes * kLanes;
    for (std::size_t i = 0; i < whole; i += kLanes) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            lanes[lane] += exponential(values[i + lane] - top);
        }
    }
    for (std::size_t i = whole; i < values.size(); ++i) {
        lanes[i - whole] += exponential(values[i] - top);
    }
    float sum = 0;
    for (const float lane : lanes) sum += lane;
    return std::log(sum) + top;
}

void tanh_in_place(std::span<float> values) noexcept {
    for (float& value : values) value = hyperbolic_tangent(value);
}

void add_gelu_in_place(std::span<float> values, std::span<const float> bias) noexcept {
    float* value = values.data();
    const float* shift = bias.data();
    for (std::size_t i = 0; i < values.size(); ++i) value[i] = gelu(value[i] + shift[i]);
}

void softmax_in_place(std::span<float> row, std::size_t length, float scale) noexcept {
    const std::span<float> padding = row.subspan(length);
    std::ranges::fill(padding, -std::numeric_limits<float>::infinity());
    const float top = largest(row);
    for (float& value : row) value = exponential((value - top) * scale);
    std::ranges::fill(padding, 0.0F);
    const float sum = fold_lanes(row, 0.0F, [](float a, float b) { return a + b; });
    const float factor = 1.0F / sum;
    for (float& value : row) value *= factor;
}

std::int32_t argmax(std::span<const float> values) noexcept {
    const float top = largest(values);
    const auto found = std::ranges::find(values, top);
    return found == values.end() ? 0 : static_cast<std::int32_t>(found - values.begin());
}

std::int32_t argmax_except(std::span<const float> values, std::size_t excluded) noexcept {
    const std::span<const float> before = values.first(excluded);
    const std::span<const float> after = values.subspan(excluded + 1);
    const auto offset = static_cast<std::int32_t>(excluded) + 1;
    if (before.empty()) return offset + argmax(after);
    if (after.empty()) return argmax(before);
    const std::int32_t first = argmax(before);
    const std::int32_t last = argmax(after);
    const bool last_wins =
        after[static_cast<std::size_t>(last)] > before[static_cast<std::size_t>(first)];
    return last_wins ? offset + last : first;
}

}  // namespace wavepool::kernels
