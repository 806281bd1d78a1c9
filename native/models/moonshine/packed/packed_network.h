#pragma once

#include <cstddef>
#include <memory>

#include "models/moonshine/network.h"
#include "models/moonshine/packed/packed_weights.h"

namespace wavepool::moonshine {

/// Computes with kernels of our own for AVX2, or AVX-512 VNNI: int8 weights times int16 columns,
/// summed up exactly. Gives the same bits whatever the tiles, the threads and the other rows.
/// Throws Error{kInvalidRequest | kInsufficientMemory}, std::bad_alloc.
[[nodiscard]] std::unique_ptr<Network> make_packed_network(
    std::shared_ptr<const PackedWeights> weights, const NetworkLimits& limits,
    const Tiles& tiles = best_tiles());

/// What bytes() of such a network would be. The weights may be planned ones.
[[nodiscard]] std::size_t packed_network_bytes(const PackedWeights& weights,
                                               const NetworkLimits& limits);

}  // namespace wavepool::moonshine
