#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace wavepool::kernels {

// Arithmetic on eight floats. Every reduction has one order, whatever the thread or the batch.

inline constexpr std::int64_t kLanes = 8;

[[nodiscard]] inline __m256 zeros() noexcept { return _mm256_setzero_ps(); }

[[nodiscard]] inline float sum_of(__m256 x) noexcept {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

[[nodiscard]] inline float largest_of(__m256 x) noexcept {
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

/// Of `length` values, a multiple of 8.
[[nodiscard]] inline float largest_magnitude(const float* x, std::int64_t length) noexcept {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    __m256 most = zeros();
    for (std::int64_t i = 0; i < length; i += kLanes) {
        most = _mm256_max_ps(most, _mm256_andnot_ps(sign, _mm256_loadu_ps(x + i)));
    }
    return largest_of(most);
}

/// The first largest of `length` values; some other one where there is none (NaN).
[[nodiscard]] inline const float* largest_value(const float* x, std::int64_t length) noexcept {
    const std::int64_t whole = length / kLanes * kLanes;
    __m256 most = _mm256_set1_ps(-std::numeric_limits<float>::infinity());
    for (std::int64_t i = 0; i < whole; i += kLanes) {
        most = _mm256_max_ps(_mm256_loadu_ps(x + i), most);
    }
    float largest = largest_of(most);
    for (std::int64_t i = whole; i < length; ++i) largest = x[i] > largest ? x[i] : largest;
    const float* found = std::find(x, x + length, largest);
    return found == x + length ? x : found;
}

/// e^x with a relative error below 2e-7; x beyond [-87, 88] counts as that bound.
[[nodiscard]] inline __m256 exponential(__m256 x) noexcept {
    x = _mm256_min_ps(_mm256_max_ps(x, _mm256_set1_ps(-87.0F)), _mm256_set1_ps(88.0F));
    const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504F)),
                                     _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    // ln 2 in two parts.
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-0.693359375F), x);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(2.12194440e-4F), r);
    __m256 p = _mm256_set1_ps(1.9875691500e-4F);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.3981999507e-3F));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.3334519073e-3F));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.1665795894e-2F));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.6666665459e-1F));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(5.0000001201e-1F));
    p = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1.0F));
    const __m256i power =
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(p, _mm256_castsi256_ps(power));
}

/// x · sigmoid(x)
[[nodiscard]] inline __m256 silu(__m256 x) noexcept {
    const __m256 one = _mm256_set1_ps(1.0F);
    return _mm256_div_ps(x, _mm256_add_ps(one, exponential(_mm256_sub_ps(zeros(), x))));
}

/// The erf form of GELU, within 1e-6 of libm: x · Φ(x) as max(x, 0) − |x|/2 · erfc(|x|/√2), with
/// erfc by Abramowitz and Stegun 7.1.26, so that nothing cancels on either side.
[[nodiscard]] inline __m256 gelu(__m256 x) noexcept {
    const __m256 one = _mm256_set1_ps(1.0F);
    const __m256 magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0F), x);
    const __m256 t = _mm256_div_ps(
        one, _mm256_fmadd_ps(magnitude, _mm256_set1_ps(0.3275911F * 0.707106781F), one));
    __m256 p = _mm256_set1_ps(1.061405429F);
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(-1.453152027F));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(1.421413741F));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(-0.284496736F));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(0.254829592F));
    const __m256 square = _mm256_mul_ps(x, x);
    const __m256 complement = _mm256_mul_ps(
        _mm256_mul_ps(p, t), exponential(_mm256_mul_ps(square, _mm256_set1_ps(-0.5F))));
    return _mm256_fnmadd_ps(_mm256_mul_ps(magnitude, _mm256_set1_ps(0.5F)), complement,
                            _mm256_max_ps(x, zeros()));
}

/// Eight floats, or eight halves made floats.
[[nodiscard]] inline __m256 load(const float* x) noexcept { return _mm256_loadu_ps(x); }
[[nodiscard]] inline __m256 load(const std::uint16_t* x) noexcept {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
}

}  // namespace wavepool::kernels
