#include "kernels/packed/tiles.h"

#include <immintrin.h>

#include <cstring>

#include "kernels/packed/tile_table.h"

namespace wavepool::kernels {
namespace {

template <int kColumns>
struct Avx2 {
    [[gnu::noinline]] static void multiply(const std::int8_t* panel, std::int64_t pairs,
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
                const auto* at =
                    reinterpret_cast<const __m128i*>(panel + 2 * kPanelRows * (pair + c));
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
};

template <int kColumns>
struct Avx512 {
    [[gnu::noinline, WAVEPOOL_AVX512]] static void multiply(const std::int8_t* panel,
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
};

constexpr int kAvx2Columns = 4;
constexpr int kAvx512Columns = kMostTileColumns;

}  // namespace

bool has_vectors() noexcept {
    return __builtin_cpu_supports("avx2") > 0 && __builtin_cpu_supports("fma") > 0 &&
           __builtin_cpu_supports("f16c") > 0;
}

Tiles avx2_tiles() noexcept { return tile_set<Tiles, Avx2, kAvx2Columns>(); }

Tiles avx512_tiles() noexcept {
    const bool usable =
        __builtin_cpu_supports("avx512f") > 0 && __builtin_cpu_supports("avx512bw") > 0 &&
        __builtin_cpu_supports("avx512vl") > 0 && __builtin_cpu_supports("avx512dq") > 0 &&
        __builtin_cpu_supports("avx512vnni") > 0;
    if (!usable) return {};
    return tile_set<Tiles, Avx512, kAvx512Columns>();
}

Tiles best_tiles() noexcept {
    const Tiles wide = avx512_tiles();
    return wide.multiply != nullptr ? wide : avx2_tiles();
}

}  // namespace wavepool::kernels
