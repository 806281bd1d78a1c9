#pragma once

#include <cstdint>

namespace wavepool::kernels {

/// Queries that the encoder attends with at once.
inline constexpr std::int64_t kQueriesAtOnce = 6;
/// Keys are read by so many positions: what lies behind the last one is read, but does not matter.
inline constexpr std::int64_t kKeyBlock = 16;
/// The widest head.
inline constexpr std::int64_t kMostHeadWidth = 64;

[[nodiscard]] constexpr std::int64_t padded_positions(std::int64_t positions) noexcept {
    return (positions + kKeyBlock - 1) / kKeyBlock * kKeyBlock;
}

/// Keys and values of one head. T is float, or std::uint16_t for f16. Up to 7 elements behind the
/// last value are read.
template <typename T>
struct HeadCache {
    const T* keys = nullptr;  ///< [width][key_stride], key_stride >= padded_positions(positions)
    std::int64_t key_stride = 0;
    const T* values = nullptr;  ///< [positions][width]
    std::int64_t width = 0;
    std::int64_t positions = 0;
};

/// One query against all positions; the query has been scaled. `scores` has room for
/// padded_positions() floats. `out` gets head.width floats.
void attend(const HeadCache<std::uint16_t>& head, const float* query, float* scores,
            float* out) noexcept;

/// `count` (1 to kQueriesAtOnce) queries, `stride` floats apart, as are the results. `scores` has
/// room for kQueriesAtOnce times padded_positions() floats. What a query gets does not depend on
/// the others. `out` may be where the queries are.
void attend(const HeadCache<float>& head, const float* queries, std::int64_t stride,
            std::int64_t count, float* scores, float* out) noexcept;

}  // namespace wavepool::kernels
