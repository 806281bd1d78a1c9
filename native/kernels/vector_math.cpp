#include "kernels/vector_math.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "kernels/exponentials.h"

namespace wavepool::kernels {
namespace {

constexpr auto kSums = static_cast<std::size_t>(kLanes);

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

/// Folds value i into lane i % 8, then the lanes into one: one order on every machine.
template <typename Fold>
inline float fold_values(std::span<const float> values, float start, Fold fold) noexcept {
    const std::size_t whole = values.size() / kSums * kSums;
    Float8 folded = broadcast(start);
    for (std::size_t i = 0; i < whole; i += kSums) folded = fold(folded, load(values.data() + i));
    std::array<float, kSums> lanes;
    store(lanes.data(), folded);
    for (std::size_t i = whole; i < values.size(); ++i) {
        lanes[i - whole] = fold(lanes[i - whole], values[i]);
    }
    float result = start;
    for (const float lane : lanes) result = fold(result, lane);
    return result;
}

}  // namespace

float largest(std::span<const float> values) noexcept {
    return fold_values(values, -std::numeric_limits<float>::infinity(),
                       [](auto a, auto b) { return larger(b, a); });
}

float log_sum_exp(std::span<const float> values) noexcept {
    const float top = largest(values);
    if (std::isinf(top)) return top;
    std::array<float, kSums> lanes{};
    const std::size_t whole = values.size() / kSums * kSums;
    for (std::size_t i = 0; i < whole; i += kSums) {
        for (std::size_t lane = 0; lane < kSums; ++lane) {
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
    const float sum = fold_values(row, 0.0F, std::plus{});
    const float factor = 1.0F / sum;
    for (float& value : row) value *= factor;
}

std::int32_t argmax(std::span<const float> values) noexcept {
    const float top = largest(values);
    const auto found = std::find(values.begin(), values.end(), top);
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
