#pragma once

#include <memory>

#include "kernels/packed/byte_tiles.h"
#include "models/whisper/checkpoint/network.h"
#include "models/whisper/packed/packed_weights.h"

namespace wavepool::whisper {

/// Null for a processor without the instructions, and for checkpoints that the kernels do not take:
/// those that are quantized, distilled ones that want to hear of no times, and those wider than
/// Whisper small, whose copy in bytes would cost more memory than speed is worth to many. With
/// Allocation::kPlanned, from the header alone, to be asked for sizes only. Throws
/// Error{kModelFileInvalid}, std::bad_alloc.
[[nodiscard]] std::shared_ptr<const NetworkWeights> load_packed_network_weights(
    const Checkpoint& checkpoint, Allocation allocation);

/// With kernels of choice: the bits are the same with each. Throws
/// Error{kInvalidRequest | kInsufficientMemory}, std::bad_alloc.
[[nodiscard]] std::unique_ptr<Network> make_packed_network(
    std::shared_ptr<const PackedWeights> weights, const NetworkLimits& limits,
    const kernels::ByteTiles& tiles);

}  // namespace wavepool::whisper
