#pragma once

#include <memory>

#include "kernels/packed/byte_tiles.h"
#include "models/whisper/network.h"
#include "models/whisper/packed/packed_weights.h"

namespace wavepool::whisper {

/// See load_network_weights().
[[nodiscard]] std::shared_ptr<const NetworkWeights> load_packed_network_weights(
    const Checkpoint& checkpoint, Allocation allocation);

/// With kernels of choice: the bits are the same with each. Throws
/// Error{kInvalidRequest | kInsufficientMemory}, std::bad_alloc.
[[nodiscard]] std::unique_ptr<Network> make_packed_network(
    std::shared_ptr<const PackedWeights> weights, const NetworkLimits& limits,
    const kernels::ByteTiles& tiles);

}  // namespace wavepool::whisper
