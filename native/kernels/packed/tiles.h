#pragma once

#include <cstdint>

namespace wavepool::kernels {

/// Rows of a matrix that are stored and multiplied together.
inline constexpr std::int64_t kPanelRows = 16;
/// Most columns that any kernel multiplies at once.
inline constexpr std::int64_t kMostTileColumns = 12;

/// The kernels of one instruction set, all of which give the same integers.
template <typename Weight, typename Column>
struct TileSet {
    /// Multiplies the 16 rows of a panel with `count` columns: out[column][row], exactly, in int32.
    /// `panel` holds `groups` (a multiple of 4) times 16 groups of successive values, four bytes'
    /// worth of a column, one group per row. Column i starts at columns + i · stride.
    using Kernel = void (*)(const Weight* panel, std::int64_t groups, const Column* columns,
                            std::int64_t stride, std::int64_t count, std::int32_t* out);

    /// Values of a group.
    static constexpr std::int64_t kGroup = 4 / static_cast<std::int64_t>(sizeof(Column));

    Kernel multiply = nullptr;
    std::int64_t columns = 0;  ///< most at once, up to kMostTileColumns
};

using Tiles = TileSet<std::int8_t, std::int16_t>;

/// Whether this processor has AVX2, FMA and F16C, which everything in this folder needs.
[[nodiscard]] bool has_vectors() noexcept;

[[nodiscard]] Tiles avx2_tiles() noexcept;
/// Without a kernel where this processor has no AVX-512 VNNI.
[[nodiscard]] Tiles avx512_tiles() noexcept;
/// The fastest that this processor has.
[[nodiscard]] Tiles best_tiles() noexcept;

}  // namespace wavepool::kernels
