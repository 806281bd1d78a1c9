#include "kernels/packed/tiles.h"

#include <immintrin.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

namespace wavepool::kernels {
namespace {

/// Few columns leave most of the processor waiting for the last sum: then successive pairs are
/// added up apart. Integers do not mind the order.
constexpr int chains_avx512(int columns) { return columns == 1 ? 4 : columns <= 3 ? 2 : 1; }

template <int kColumns>
[[gnu::noinline]] void multiply_avx2(const std::int8_t* panel, std::int64_t pairs,
                                     const std::int16_t* columns, std::int64_t stride,
                                     std::int32_t* out) noexcept {
    constexpr int kChains = kColumns == 1 ? 4 : 1;
    __m256i low[kChains][kColumns];
    __m256i high[kChains][kColumns];
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) {
#pragma GCC unroll 4
        for (int i = 0; i < kColumns; ++i) low[c][i] = high[c][i] = _mm256_setzero_si256();
    }
    for (std::int64_t pair = 0; pair < pairs; pair += kChains) {
#pragma GCC unroll 4
        for (int c = 0; c < kChains; ++c) {
            const auto* at = reinterpret_cast<const __m128i*>(panel + 2 * kPanelRows * (pair + c));
            const __m256i upper = _mm256_cvtepi8_epi16(_mm_loadu_si128(at));
            const __m256i lower = _mm256_cvtepi8_epi16(_mm_loadu_si128(at + 1));
#pragma GCC unroll 4
            for (int i = 0; i < kColumns; ++i) {
                std::int32_t x;
                std::memcpy(&x, columns + i * stride + 2 * (pair + c), sizeof(x));
                const __m256i both = _mm256_set1_epi32(x);
                low[c][i] = _mm256_add_epi32(low[c][i], _mm256_madd_epi16(upper, both));
                high[c][i] = _mm256_add_epi32(high[c][i], _mm256_madd_epi16(lower, both));
            }
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < kColumns; ++i) {
#pragma GCC unroll 4
        for (int c = 1; c < kChains; ++c) {
            low[0][i] = _mm256_add_epi32(low[0][i], low[c][i]);
            high[0][i] = _mm256_add_epi32(high[0][i], high[c][i]);
        }
        auto* to = reinterpret_cast<__m256i*>(out + i * kPanelRows);
        _mm256_storeu_si256(to, low[0][i]);
        _mm256_storeu_si256(to + 1, high[0][i]);
    }
}

#define WAVEPOOL_AVX512 gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")

template <int kColumns>
[[gnu::noinline, WAVEPOOL_AVX512]] void multiply_avx512(const std::int8_t* panel,
                                                        std::int64_t pairs,
                                                        const std::int16_t* columns,
                                                        std::int64_t stride,
                                                        std::int32_t* out) noexcept {
    constexpr int kChains = chains_avx512(kColumns);
    __m512i sum[kChains][kColumns];
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) {
#pragma GCC unroll 12
        for (int i = 0; i < kColumns; ++i) sum[c][i] = _mm512_setzero_si512();
    }
    for (std::int64_t pair = 0; pair < pairs; pair += kChains) {
#pragma GCC unroll 4
        for (int c = 0; c < kChains; ++c) {
            const __m512i rows = _mm512_cvtepi8_epi16(_mm256_loadu_si256(
                reinterpret_cast<const __m256i*>(panel + 2 * kPanelRows * (pair + c))));
#pragma GCC unroll 12
            for (int i = 0; i < kColumns; ++i) {
                std::int32_t x;
                std::memcpy(&x, columns + i * stride + 2 * (pair + c), sizeof(x));
                sum[c][i] = _mm512_dpwssd_epi32(sum[c][i], rows, _mm512_set1_epi32(x));
            }
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < kColumns; ++i) {
#pragma GCC unroll 4
        for (int c = 1; c < kChains; ++c) sum[0][i] = _mm512_add_epi32(sum[0][i], sum[c][i]);
        _mm512_storeu_si512(out + i * kPanelRows, sum[0][i]);
    }
}

using FixedKernel = void (*)(const std::int8_t*, std::int64_t, const std::int16_t*, std::int64_t,
                             std::int32_t*) noexcept;

constexpr std::int64_t kAvx2Columns = 4;
constexpr std::int64_t kAvx512Columns = kMostTileColumns;

template <std::size_t... kIndex>
constexpr auto avx2_kernels(std::index_sequence<kIndex...> /*columns*/) {
    return std::array<FixedKernel, sizeof...(kIndex)>{&multiply_avx2<kIndex + 1>...};
}

template <std::size_t... kIndex>
constexpr auto avx512_kernels(std::index_sequence<kIndex...> /*columns*/) {
    return std::array<FixedKernel, sizeof...(kIndex)>{&multiply_avx512<kIndex + 1>...};
}

constexpr auto kAvx2 = avx2_kernels(std::make_index_sequence<kAvx2Columns>());
constexpr auto kAvx512 = avx512_kernels(std::make_index_sequence<kAvx512Columns>());

}  // namespace

bool has_vectors() noexcept {
    return __builtin_cpu_supports("avx2") > 0 && __builtin_cpu_supports("fma") > 0 &&
           __builtin_cpu_supports("f16c") > 0;
}

Tiles avx2_tiles() noexcept {
    return {[](const std::int8_t* panel, std::int64_t pairs, const std::int16_t* columns,
               std::int64_t stride, std::int64_t count, std::int32_t* out) {
                kAvx2[static_cast<std::size_t>(count - 1)](panel, pairs, columns, stride, out);
            },
            kAvx2Columns};
}

Tiles avx512_tiles() noexcept {
    const bool usable =
        __builtin_cpu_supports("avx512f") > 0 && __builtin_cpu_supports("avx512bw") > 0 &&
        __builtin_cpu_supports("avx512vl") > 0 && __builtin_cpu_supports("avx512dq") > 0 &&
        __builtin_cpu_supports("avx512vnni") > 0;
    if (!usable) return {};
    return {[](const std::int8_t* panel, std::int64_t pairs, const std::int16_t* columns,
               std::int64_t stride, std::int64_t count, std::int32_t* out) {
                kAvx512[static_cast<std::size_t>(count - 1)](panel, pairs, columns, stride, out);
            },
            kAvx512Columns};
}

Tiles best_tiles() noexcept {
    const Tiles wide = avx512_tiles();
    return wide.multiply != nullptr ? wide : avx2_tiles();
}

}  // namespace wavepool::kernels
