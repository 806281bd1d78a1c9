#include "kernels/packed/byte_tiles.h"

#include <immintrin.h>

#include <cstring>

#include "kernels/packed/tile_table.h"

namespace wavepool::kernels {
namespace {

constexpr std::int64_t kPanelQuadBytes = 4 * kPanelRows;

/// Bytes are widened to int16, since products of bytes would saturate when AVX2 adds them in pairs.
template <int kColumns>
struct Avx2 {
    [[gnu::noinline]] static void multiply(const std::uint8_t* panel, std::int64_t quads,
                                           const std::int8_t* columns, std::int64_t stride,
                                           std::int32_t* out) noexcept {
        constexpr int kParts = 4;  // of four rows, each with two sums
        __m256i sum[kColumns][kParts];
#pragma GCC unroll 2
        for (int i = 0; i < kColumns; ++i) {
#pragma GCC unroll 4
            for (int part = 0; part < kParts; ++part) sum[i][part] = _mm256_setzero_si256();
        }
        for (std::int64_t quad = 0; quad < quads; ++quad) {
            __m256i x[kColumns];
#pragma GCC unroll 2
            for (int i = 0; i < kColumns; ++i) {
                std::int32_t four;
                std::memcpy(&four, columns + i * stride + 4 * quad, sizeof(four));
                x[i] = _mm256_broadcastq_epi64(_mm_cvtepi8_epi16(_mm_cvtsi32_si128(four)));
            }
            const auto* at = reinterpret_cast<const __m128i*>(panel + kPanelQuadBytes * quad);
#pragma GCC unroll 4
            for (int part = 0; part < kParts; ++part) {
                const __m256i rows = _mm256_cvtepu8_epi16(_mm_loadu_si128(at + part));
#pragma GCC unroll 2
                for (int i = 0; i < kColumns; ++i) {
                    sum[i][part] = _mm256_add_epi32(sum[i][part], _mm256_madd_epi16(rows, x[i]));
                }
            }
        }
#pragma GCC unroll 2
        for (int i = 0; i < kColumns; ++i) {
            auto* to = reinterpret_cast<__m256i*>(out + i * kPanelRows);
            // Adding neighbors goes by halves of the vectors; the permutation puts them in order.
            const __m256i first = _mm256_hadd_epi32(sum[i][0], sum[i][1]);
            const __m256i second = _mm256_hadd_epi32(sum[i][2], sum[i][3]);
            _mm256_storeu_si256(to, _mm256_permute4x64_epi64(first, 0xD8));
            _mm256_storeu_si256(to + 1, _mm256_permute4x64_epi64(second, 0xD8));
        }
    }
};

template <int kColumns>
struct Avx512 {
    [[gnu::noinline, WAVEPOOL_AVX512]] static void multiply(const std::uint8_t* panel,
                                                            std::int64_t quads,
                                                            const std::int8_t* columns,
                                                            std::int64_t stride,
                                                            std::int32_t* out) noexcept {
        constexpr int kChains = chains_avx512(kColumns);
        __m512i sum[kChains][kColumns];
#pragma GCC unroll 4
        for (int c = 0; c < kChains; ++c) {
#pragma GCC unroll 12
            for (int i = 0; i < kColumns; ++i) sum[c][i] = _mm512_setzero_si512();
        }
        for (std::int64_t quad = 0; quad < quads; quad += kChains) {
#pragma GCC unroll 4
            for (int c = 0; c < kChains; ++c) {
                const __m512i rows = _mm512_loadu_si512(panel + kPanelQuadBytes * (quad + c));
#pragma GCC unroll 12
                for (int i = 0; i < kColumns; ++i) {
                    std::int32_t x;
                    std::memcpy(&x, columns + i * stride + 4 * (quad + c), sizeof(x));
                    sum[c][i] = _mm512_dpbusd_epi32(sum[c][i], rows, _mm512_set1_epi32(x));
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

constexpr int kAvx2Columns = 2;
constexpr int kAvx512Columns = kMostTileColumns;

}  // namespace

ByteTiles avx2_byte_tiles() noexcept { return tile_set<ByteTiles, Avx2, kAvx2Columns>(); }

ByteTiles avx512_byte_tiles() noexcept {
    if (avx512_tiles().multiply == nullptr) return {};
    return tile_set<ByteTiles, Avx512, kAvx512Columns>();
}

ByteTiles best_byte_tiles() noexcept {
    const ByteTiles wide = avx512_byte_tiles();
    return wide.multiply != nullptr ? wide : avx2_byte_tiles();
}

}  // namespace wavepool::kernels
