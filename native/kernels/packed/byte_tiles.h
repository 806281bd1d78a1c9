#pragma once

#include <cstdint>

#include "kernels/packed/tiles.h"

namespace wavepool::kernels {

/// Multiplies the 16 rows of a panel with `count` columns: out[column][row], exactly, in int32.
/// `panel` holds `quads` (a multiple of 4) times 16 groups of four successive values, one group per
/// row. Column i starts at columns + i · stride.
using ByteTileKernel = void (*)(const std::uint8_t* panel, std::int64_t quads,
                                const std::int8_t* columns, std::int64_t stride, std::int64_t count,
                                std::int32_t* out);

/// The kernels of one instruction set. All give the same integers.
struct ByteTiles {
    ByteTileKernel multiply = nullptr;
    std::int64_t columns = 0;  ///< most at once, up to kMostTileColumns
};

[[nodiscard]] ByteTiles avx2_byte_tiles() noexcept;
/// Without a kernel where this processor has no AVX-512 VNNI.
[[nodiscard]] ByteTiles avx512_byte_tiles() noexcept;
/// The fastest that this processor has.
[[nodiscard]] ByteTiles best_byte_tiles() noexcept;

}  // namespace wavepool::kernels
