#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/float8.h"
#include "kernels/packed/tiles.h"

namespace wavepool::kernels {

/// A tile of columns that stays in the first-level cache beside a panel.
inline constexpr std::int64_t kTileBytes = 16384;

/// The largest magnitude of `length` values, a multiple of 8.
[[nodiscard]] inline float largest_magnitude(const float* x, std::int64_t length) noexcept {
    Float8 most = broadcast(0.0F);
    for (std::int64_t i = 0; i < length; i += kLanes) most = larger(most, magnitude(load(x + i)));
    return largest_of(most);
}

/// Multiplies a panel of `length` values per row with `count` columns, tile by tile, and hands the
/// integers to write(column, sums), which are those of the panel's 16 rows.
template <typename Weight, typename Column, typename Write>
void multiply_panel(const TileSet<Weight, Column>& tiles, const Weight* panel, std::int64_t length,
                    const Column* columns, std::int64_t stride, std::int64_t count,
                    const Write& write) noexcept {
    const auto column_bytes = length * static_cast<std::int64_t>(sizeof(Column));
    const std::int64_t most = std::clamp<std::int64_t>(kTileBytes / column_bytes, 1, tiles.columns);
    // Tiles of about one size: a last one of a single column would be slow.
    const std::int64_t parts = (count + most - 1) / most;
    alignas(64) std::array<std::int32_t, kMostTileColumns * kPanelRows> sums;
    for (std::int64_t part = 0; part < parts; ++part) {
        const std::int64_t first = count * part / parts;
        const std::int64_t width = count * (part + 1) / parts - first;
        tiles.multiply(panel, length / tiles.kGroup, columns + first * stride, stride, width,
                       sums.data());
        for (std::int64_t i = 0; i < width; ++i) write(first + i, sums.data() + i * kPanelRows);
    }
}

}  // namespace wavepool::kernels
