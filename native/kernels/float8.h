#pragma once

#include <cmath>
#include <cstdint>

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include <immintrin.h>
#else
#include <ggml.h>

#include <array>
#include <bit>
#include <cstddef>
#endif

namespace wavepool::kernels {

/// How many floats a Float8 holds.
inline constexpr std::int64_t kLanes = 8;

// Float8 is eight floats that are computed on together. Every operation is the same IEEE operation
// in each lane and every sum has one order, so results depend neither on the lane that a value is
// in nor on the instruction set. An instruction set needs one block of these functions: there is
// one for AVX2, and one in plain C++ that serves every other processor.

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

struct Float8 {
    __m256 lanes;
};

[[nodiscard]] inline Float8 load(const float* from) noexcept { return {_mm256_loadu_ps(from)}; }
inline void store(float* to, Float8 a) noexcept { _mm256_storeu_ps(to, a.lanes); }
[[nodiscard]] inline Float8 broadcast(float value) noexcept { return {_mm256_set1_ps(value)}; }

[[nodiscard]] inline Float8 operator+(Float8 a, Float8 b) noexcept {
    return {_mm256_add_ps(a.lanes, b.lanes)};
}
[[nodiscard]] inline Float8 operator-(Float8 a, Float8 b) noexcept {
    return {_mm256_sub_ps(a.lanes, b.lanes)};
}
[[nodiscard]] inline Float8 operator*(Float8 a, Float8 b) noexcept {
    return {_mm256_mul_ps(a.lanes, b.lanes)};
}
[[nodiscard]] inline Float8 operator/(Float8 a, Float8 b) noexcept {
    return {_mm256_div_ps(a.lanes, b.lanes)};
}
/// a · b + c, rounded once.
[[nodiscard]] inline Float8 fused(Float8 a, Float8 b, Float8 c) noexcept {
    return {_mm256_fmadd_ps(a.lanes, b.lanes, c.lanes)};
}
/// a > b ? a : b
[[nodiscard]] inline Float8 larger(Float8 a, Float8 b) noexcept {
    return {_mm256_max_ps(a.lanes, b.lanes)};
}
/// a < b ? a : b
[[nodiscard]] inline Float8 smaller(Float8 a, Float8 b) noexcept {
    return {_mm256_min_ps(a.lanes, b.lanes)};
}
[[nodiscard]] inline Float8 magnitude(Float8 a) noexcept {
    return {_mm256_andnot_ps(_mm256_set1_ps(-0.0F), a.lanes)};
}
[[nodiscard]] inline Float8 square_root(Float8 a) noexcept { return {_mm256_sqrt_ps(a.lanes)}; }
[[nodiscard]] inline Float8 nearest_integer(Float8 a) noexcept {
    return {_mm256_round_ps(a.lanes, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
/// 2 to the power of each lane. The lanes are integers from -126 to 127.
[[nodiscard]] inline Float8 power_of_two(Float8 integral) noexcept {
    const __m256i exponent =
        _mm256_add_epi32(_mm256_cvtps_epi32(integral.lanes), _mm256_set1_epi32(127));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23))};
}

/// The lanes in the order 7, 6, … 0.
[[nodiscard]] inline Float8 reverse(Float8 a) noexcept {
    return {_mm256_permutevar8x32_ps(a.lanes, _mm256_set_epi32(0, 1, 2, 3, 4, 5, 6, 7))};
}
/// The lanes in the order 1, 0, 3, 2, 5, 4, 7, 6.
[[nodiscard]] inline Float8 swap_neighbors(Float8 a) noexcept {
    return {_mm256_permute_ps(a.lanes, 0b10'11'00'01)};
}
/// The lanes added as ((0+4)+(2+6)) + ((1+5)+(3+7)).
[[nodiscard]] inline float sum_of(Float8 a) noexcept {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(a.lanes), _mm256_extractf128_ps(a.lanes, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}
/// The largest lane, compared in the order of sum_of().
[[nodiscard]] inline float largest_of(Float8 a) noexcept {
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(a.lanes), _mm256_extractf128_ps(a.lanes, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

// Halves are floats of 16 bits (IEEE binary16), kept as integers. Rounding is to the nearest half.
[[nodiscard]] inline std::uint16_t to_half(float value) noexcept {
    return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT);
}
[[nodiscard]] inline Float8 load(const std::uint16_t* halves) noexcept {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves)))};
}
inline void store(std::uint16_t* halves, Float8 a) noexcept {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(halves),
                     _mm256_cvtps_ph(a.lanes, _MM_FROUND_TO_NEAREST_INT));
}

#else

struct Float8 {
    std::array<float, kLanes> lanes;
};

template <typename Operation>
[[nodiscard]] inline Float8 each_lane(Operation operation) noexcept {
    Float8 result;
    for (std::size_t i = 0; i < kLanes; ++i) result.lanes[i] = operation(i);
    return result;
}
/// Folds the lanes as ((0+4)+(2+6)) + ((1+5)+(3+7)).
template <typename Fold>
[[nodiscard]] inline float fold_lanes(const Float8& a, Fold fold) noexcept {
    const auto& lane = a.lanes;
    return fold(fold(fold(lane[0], lane[4]), fold(lane[2], lane[6])),
                fold(fold(lane[1], lane[5]), fold(lane[3], lane[7])));
}

[[nodiscard]] inline Float8 load(const float* from) noexcept {
    return each_lane([&](std::size_t i) { return from[i]; });
}
inline void store(float* to, Float8 a) noexcept {
    for (std::size_t i = 0; i < kLanes; ++i) to[i] = a.lanes[i];
}
[[nodiscard]] inline Float8 broadcast(float value) noexcept {
    return each_lane([&](std::size_t) { return value; });
}

[[nodiscard]] inline Float8 operator+(Float8 a, Float8 b) noexcept {
    return each_lane([&](std::size_t i) { return a.lanes[i] + b.lanes[i]; });
}
[[nodiscard]] inline Float8 operator-(Float8 a, Float8 b) noexcept {
    return each_lane([&](std::size_t i) { return a.lanes[i] - b.lanes[i]; });
}
[[nodiscard]] inline Float8 operator*(Float8 a, Float8 b) noexcept {
    return each_lane([&](std::size_t i) { return a.lanes[i] * b.lanes[i]; });
}
[[nodiscard]] inline Float8 operator/(Float8 a, Float8 b) noexcept {
    return each_lane([&](std::size_t i) { return a.lanes[i] / b.lanes[i]; });
}
[[nodiscard]] inline Float8 fused(Float8 a, Float8 b, Float8 c) noexcept {
    return each_lane([&](std::size_t i) { return std::fma(a.lanes[i], b.lanes[i], c.lanes[i]); });
}
[[nodiscard]] inline Float8 larger(Float8 a, Float8 b) noexcept {
    return each_lane(
        [&](std::size_t i) { return a.lanes[i] > b.lanes[i] ? a.lanes[i] : b.lanes[i]; });
}
[[nodiscard]] inline Float8 smaller(Float8 a, Float8 b) noexcept {
    return each_lane(
        [&](std::size_t i) { return a.lanes[i] < b.lanes[i] ? a.lanes[i] : b.lanes[i]; });
}
[[nodiscard]] inline Float8 magnitude(Float8 a) noexcept {
    return each_lane([&](std::size_t i) { return std::fabs(a.lanes[i]); });
}
[[nodiscard]] inline Float8 square_root(Float8 a) noexcept {
    return each_lane([&](std::size_t i) { return std::sqrt(a.lanes[i]); });
}
[[nodiscard]] inline Float8 nearest_integer(Float8 a) noexcept {
    return each_lane([&](std::size_t i) { return std::nearbyint(a.lanes[i]); });
}
[[nodiscard]] inline Float8 power_of_two(Float8 integral) noexcept {
    return each_lane([&](std::size_t i) {
        const auto exponent = static_cast<std::uint32_t>(static_cast<int>(integral.lanes[i]) + 127);
        return std::bit_cast<float>(exponent << 23);
    });
}

[[nodiscard]] inline Float8 reverse(Float8 a) noexcept {
    return each_lane([&](std::size_t i) { return a.lanes[7 - i]; });
}
[[nodiscard]] inline Float8 swap_neighbors(Float8 a) noexcept {
    return each_lane([&](std::size_t i) { return a.lanes[i ^ 1]; });
}
[[nodiscard]] inline float sum_of(Float8 a) noexcept {
    return fold_lanes(a, [](float x, float y) { return x + y; });
}
[[nodiscard]] inline float largest_of(Float8 a) noexcept {
    return fold_lanes(a, [](float x, float y) { return x > y ? x : y; });
}

[[nodiscard]] inline std::uint16_t to_half(float value) noexcept {
    return ggml_fp32_to_fp16(value);
}
[[nodiscard]] inline Float8 load(const std::uint16_t* halves) noexcept {
    return each_lane([&](std::size_t i) { return ggml_fp16_to_fp32(halves[i]); });
}
inline void store(std::uint16_t* halves, Float8 a) noexcept {
    for (std::size_t i = 0; i < kLanes; ++i) halves[i] = to_half(a.lanes[i]);
}

#endif

}  // namespace wavepool::kernels
