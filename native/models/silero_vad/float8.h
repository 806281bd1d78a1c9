#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#endif

namespace wavepool::silero_vad {

/// Eight floats that are computed on together. Every operation is the same IEEE operation in each
/// lane, so results do not depend on which lane a value is in, nor on the instruction set.
#if defined(__AVX2__) && defined(__FMA__)

struct Float8 {
    __m256 lanes;
};

inline Float8 load(const float* from) noexcept { return {_mm256_loadu_ps(from)}; }
inline void store(float* to, Float8 a) noexcept { _mm256_storeu_ps(to, a.lanes); }
inline Float8 broadcast(float value) noexcept { return {_mm256_set1_ps(value)}; }
inline Float8 reverse(Float8 a) noexcept {
    return {_mm256_permutevar8x32_ps(a.lanes, _mm256_set_epi32(0, 1, 2, 3, 4, 5, 6, 7))};
}
inline Float8 operator+(Float8 a, Float8 b) noexcept { return {_mm256_add_ps(a.lanes, b.lanes)}; }
inline Float8 operator-(Float8 a, Float8 b) noexcept { return {_mm256_sub_ps(a.lanes, b.lanes)}; }
inline Float8 operator*(Float8 a, Float8 b) noexcept { return {_mm256_mul_ps(a.lanes, b.lanes)}; }
inline Float8 operator/(Float8 a, Float8 b) noexcept { return {_mm256_div_ps(a.lanes, b.lanes)}; }
/// a · b + c, rounded once.
inline Float8 fused(Float8 a, Float8 b, Float8 c) noexcept {
    return {_mm256_fmadd_ps(a.lanes, b.lanes, c.lanes)};
}
inline Float8 larger(Float8 a, Float8 b) noexcept { return {_mm256_max_ps(a.lanes, b.lanes)}; }
inline Float8 smaller(Float8 a, Float8 b) noexcept { return {_mm256_min_ps(a.lanes, b.lanes)}; }
inline Float8 square_root(Float8 a) noexcept { return {_mm256_sqrt_ps(a.lanes)}; }
inline Float8 nearest_integer(Float8 a) noexcept {
    return {_mm256_round_ps(a.lanes, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
/// 2 to the power of integral lanes in [-126, 127].
inline Float8 power_of_two(Float8 integral) noexcept {
    const __m256i exponent =
        _mm256_add_epi32(_mm256_cvtps_epi32(integral.lanes), _mm256_set1_epi32(127));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23))};
}

#else

struct Float8 {
    std::array<float, 8> lanes;
};

template <typename Operation>
inline Float8 each_lane(Operation operation) noexcept {
    Float8 result;
    for (std::size_t i = 0; i < 8; ++i) result.lanes[i] = operation(i);
    return result;
}
inline Float8 load(const float* from) noexcept {
    return each_lane([&](std::size_t i) { return from[i]; });
}
inline void store(float* to, Float8 a) noexcept { std::copy(a.lanes.begin(), a.lanes.end(), to); }
inline Float8 broadcast(float value) noexcept {
    return each_lane([&](std::size_t) { return value; });
}
inline Float8 reverse(Float8 a) noexcept {
    return each_lane([&](std::size_t i) { return a.lanes[7 - i]; });
}
inline Float8 operator+(Float8 a, Float8 b) noexcept {
    return each_lane([&](std::size_t i) { return a.lanes[i] + b.lanes[i]; });
}
inline Float8 operator-(Float8 a, Float8 b) noexcept {
    return each_lane([&](std::size_t i) { return a.lanes[i] - b.lanes[i]; });
}
inline Float8 operator*(Float8 a, Float8 b) noexcept {
    return each_lane([&](std::size_t i) { return a.lanes[i] * b.lanes[i]; });
}
inline Float8 operator/(Float8 a, Float8 b) noexcept {
    return each_lane([&](std::size_t i) { return a.lanes[i] / b.lanes[i]; });
}
/// a · b + c, rounded once.
inline Float8 fused(Float8 a, Float8 b, Float8 c) noexcept {
    return each_lane([&](std::size_t i) { return std::fma(a.lanes[i], b.lanes[i], c.lanes[i]); });
}
inline Float8 larger(Float8 a, Float8 b) noexcept {
    return each_lane(
        [&](std::size_t i) { return a.lanes[i] > b.lanes[i] ? a.lanes[i] : b.lanes[i]; });
}
inline Float8 smaller(Float8 a, Float8 b) noexcept {
    return each_lane(
        [&](std::size_t i) { return a.lanes[i] < b.lanes[i] ? a.lanes[i] : b.lanes[i]; });
}
inline Float8 square_root(Float8 a) noexcept {
    return each_lane([&](std::size_t i) { return std::sqrt(a.lanes[i]); });
}
inline Float8 nearest_integer(Float8 a) noexcept {
    return each_lane([&](std::size_t i) { return std::nearbyint(a.lanes[i]); });
}
/// 2 to the power of integral lanes in [-126, 127].
inline Float8 power_of_two(Float8 integral) noexcept {
    return each_lane([&](std::size_t i) {
        const auto exponent = static_cast<std::uint32_t>(static_cast<int>(integral.lanes[i]) + 127);
        return std::bit_cast<float>(exponent << 23);
    });
}

#endif

/// The lanes added as ((0+4)+(2+6)) + ((1+5)+(3+7)).
inline float sum(Float8 a) noexcept {
    std::array<float, 8> lane;
    store(lane.data(), a);
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/// e to the power of each lane, to about 1e-7 relative; lanes beyond ±87 count as ±87.
inline Float8 exponential(Float8 x) noexcept {
    x = smaller(larger(x, broadcast(-87.0F)), broadcast(87.0F));
    const Float8 halvings = nearest_integer(x * broadcast(1.44269504F));
    // ln 2 in two parts: the first has few enough bits for its products to be exact.
    Float8 r = fused(halvings, broadcast(-0.693359375F), x);
    r = fused(halvings, broadcast(2.12194440e-4F), r);
    Float8 series = broadcast(1.0F / 5040.0F);
    for (const float term :
         {1.0F / 720.0F, 1.0F / 120.0F, 1.0F / 24.0F, 1.0F / 6.0F, 0.5F, 1.0F, 1.0F})
        series = fused(series, r, broadcast(term));
    return series * power_of_two(halvings);
}

inline Float8 sigmoid(Float8 x) noexcept {
    const Float8 one = broadcast(1.0F);
    return one / (one + exponential(broadcast(0.0F) - x));
}

inline Float8 hyperbolic_tangent(Float8 x) noexcept {
    const Float8 one = broadcast(1.0F);
    return one - broadcast(2.0F) / (one + exponential(x + x));
}

}  // namespace wavepool::silero_vad
