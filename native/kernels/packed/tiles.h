#pragma once

#include <cstdint>

namespace wavepool::kernels {

/// Rows of a matrix that are stored and multiplied together.
inline constexpr std::int64_t kPanelRows = 16;
/// Most columns that any kernel multiplies at once.
inline constexpr std::int64_t kMostTileColumns = 12;

/// Multiplies the 16 rows of a panel with `count` columns: out[column][row], exactly, in int32.
/// `panel` holds `pairs` (a multiple of 4) times 16 pairs of successive values, one pair per row.
/// Column i starts at columns + i · stride.
using TileKernel = void (*)(const std::int8_t* panel, std::int64_t pairs,
                            const std::int16_t* columns, std::int64_t stride, std::int64_t count,
                            std::int32_t* out);

/// The kernels of one instruction set. All give the same integers.
struct Tiles {
    TileKernel multiply = nullptr;
    std::int64_t columns = 0;  ///< most at once, up to kMostTileColumns
};

/// Whether this processor has AVX2, FMA and F16C, which everything in this folder needs.
[[nodiscard]] bool has_vectors() noexcept;

[[nodiscard]] Tiles avx2_tiles() noexcept;
/// Without a kernel where this processor has no AVX-512 VNNI.
[[nodiscard]] Tiles avx512_tiles() noexcept;
/// The fastest that this processor has.
[[nodiscard]] Tiles best_tiles() noexcept;

}  // namespace wavepool::kernels
