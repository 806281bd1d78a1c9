#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>

#include "kernels/float8.h"

namespace wavepool::kernels {

// Three ways to compute e^x, and the functions that exist for one float and for eight. The three
// differ in the last bit of a few results, and the bits of every model are promised to stay, so
// none can take the place of another.

// One float, in the words that the functions for eight are written in.
[[nodiscard]] inline float fused(float a, float b, float c) noexcept { return std::fma(a, b, c); }
[[nodiscard]] inline float larger(float a, float b) noexcept { return a > b ? a : b; }
[[nodiscard]] inline float smaller(float a, float b) noexcept { return a < b ? a : b; }
[[nodiscard]] inline float magnitude(float a) noexcept { return std::fabs(a); }

/// The same number in one float or in each of eight.
template <typename Number>
[[nodiscard]] inline Number constant(float value) noexcept {
    if constexpr (std::same_as<Number, float>) {
        return value;
    } else {
        return broadcast(value);
    }
}

inline constexpr float kHalvings = 1.44269504F;  ///< 1 / ln 2

/// x - n · ln 2, with ln 2 in two parts: the first has so few bits that its product is exact.
template <typename Number>
[[nodiscard]] inline Number reduced(Number x, Number n) noexcept {
    const Number rest = fused(n, constant<Number>(-0.693359375F), x);
    return fused(n, constant<Number>(2.12194440e-4F), rest);
}

/// e^r for r in [-ln2/2, ln2/2], by a polynomial of degree 7 that is fitted to this interval.
template <typename Number>
[[nodiscard]] inline Number fitted_exponential(Number r) noexcept {
    Number p = constant<Number>(1.9875691500e-4F);
    p = fused(p, r, constant<Number>(1.3981999507e-3F));
    p = fused(p, r, constant<Number>(8.3334519073e-3F));
    p = fused(p, r, constant<Number>(4.1665795894e-2F));
    p = fused(p, r, constant<Number>(1.6666665459e-1F));
    p = fused(p, r, constant<Number>(5.0000001201e-1F));
    return fused(p, r * r, r) + constant<Number>(1.0F);
}

/// e^x of one float with a relative error below 2e-7; x beyond [-87, 88] counts as that bound. This
/// is straight-line code: a loop around it becomes vectors on every processor (vector_math.h).
[[nodiscard]] inline float exponential(float x) noexcept {
    constexpr float kRound = 12582912.0F;  // 1.5 · 2^23: adding it rounds to an integer
    x = smaller(88.0F, larger(-87.0F, x));
    const float shifted = std::fma(x, kHalvings, kRound);
    const std::int32_t power = std::bit_cast<std::int32_t>(shifted) - 0x4B400000;
    return fitted_exponential(reduced(x, shifted - kRound)) *
           std::bit_cast<float>((power + 127) << 23);
}

/// e^x of eight floats with a relative error below 2e-7; x beyond [-87, 88] counts as that bound.
/// The packed kernels of Moonshine and Whisper use it. It rounds x / ln 2 in two steps, and so
/// differs from that of one float for 17 of all floats.
[[nodiscard]] inline Float8 exponential(Float8 x) noexcept {
    x = smaller(larger(x, broadcast(-87.0F)), broadcast(88.0F));
    const Float8 n = nearest_integer(x * broadcast(kHalvings));
    return fitted_exponential(reduced(x, n)) * power_of_two(n);
}

/// e^x of eight floats with a relative error of about 1e-7, by the Taylor series to degree 7; x
/// beyond [-87, 87] counts as that bound. Silero VAD uses it.
[[nodiscard]] inline Float8 taylor_exponential(Float8 x) noexcept {
    x = smaller(larger(x, broadcast(-87.0F)), broadcast(87.0F));
    const Float8 n = nearest_integer(x * broadcast(kHalvings));
    const Float8 r = reduced(x, n);
    Float8 series = broadcast(1.0F / 5040.0F);
    for (const float term :
         {1.0F / 720.0F, 1.0F / 120.0F, 1.0F / 24.0F, 1.0F / 6.0F, 0.5F, 1.0F, 1.0F})
        series = fused(series, r, broadcast(term));
    return series * power_of_two(n);
}

/// The erf form of GELU, within 1e-6 of libm: x · Φ(x) as max(x, 0) − |x|/2 · erfc(|x|/√2), with
/// erfc by Abramowitz and Stegun 7.1.26, so that nothing cancels on either side.
template <typename Number>
[[nodiscard]] inline Number gelu(Number x) noexcept {
    const Number one = constant<Number>(1.0F);
    const Number size = magnitude(x);
    const Number t = one / fused(size, constant<Number>(0.3275911F * 0.707106781F), one);
    Number p = constant<Number>(1.061405429F);
    p = fused(p, t, constant<Number>(-1.453152027F));
    p = fused(p, t, constant<Number>(1.421413741F));
    p = fused(p, t, constant<Number>(-0.284496736F));
    p = fused(p, t, constant<Number>(0.254829592F));
    const Number complement = p * t * exponential(x * x * constant<Number>(-0.5F));
    return fused(size * constant<Number>(-0.5F), complement, larger(x, constant<Number>(0.0F)));
}

}  // namespace wavepool::kernels
