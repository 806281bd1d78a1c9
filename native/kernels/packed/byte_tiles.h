#pragma once

#include <cstdint>

#include "kernels/packed/tiles.h"

namespace wavepool::kernels {

using ByteTiles = TileSet<std::uint8_t, std::int8_t>;

[[nodiscard]] ByteTiles avx2_byte_tiles() noexcept;
/// Without a kernel where this processor has no AVX-512 VNNI.
[[nodiscard]] ByteTiles avx512_byte_tiles() noexcept;
/// The fastest that this processor has.
[[nodiscard]] ByteTiles best_byte_tiles() noexcept;

}  // namespace wavepool::kernels
