#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace wavepool::kernels {

// What ggml computes one value at a time through libm, written so that the compiler vectorizes it.
// Each function gives the same bits whatever the length, the thread and the machine's vectors.

/// tanh, within 3e-7 of libm.
void tanh_in_place(std::span<float> values) noexcept;

/// The erf form of GELU of `values` + `bias`, within 1e-6 of libm for |x| < 10. Same lengths.
void add_gelu_in_place(std::span<float> values, std::span<const float> bias) noexcept;

/// Softmax of scale · row over the first `length` values, within 1e-6 of libm; zeros behind them.
/// `row` is a multiple of 8 long, 1 <= length <= row.size().
void softmax_in_place(std::span<float> row, std::size_t length, float scale) noexcept;

/// The largest value; -infinity when there is none (none at all, or NaN).
[[nodiscard]] float largest(std::span<const float> values) noexcept;

/// log Σ e^x, within 1e-6 of libm; -infinity when no value is above that.
[[nodiscard]] float log_sum_exp(std::span<const float> values) noexcept;

/// Index of the first largest value; 0 when there is none (NaN).
[[nodiscard]] std::int32_t argmax(std::span<const float> values) noexcept;

/// The same among all values but the one at `excluded`. At least two values.
[[nodiscard]] std::int32_t argmax_except(std::span<const float> values,
                                         std::size_t excluded) noexcept;

}  // namespace wavepool::kernels
