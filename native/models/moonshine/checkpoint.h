#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "framework/tensors/tensor_source.h"
#include "models/moonshine/graph_memory.h"
#include "models/moonshine/network.h"

namespace wavepool::moonshine {

/// Which code computes a checkpoint.
enum class Kernels {
    kBest,   ///< our own where the processor and the checkpoint allow, ggml's elsewhere
    kStock,  ///< ggml's
};

/// A checkpoint in the form that one kind of network computes with; its sessions share it.
/// Immutable.
class Checkpoint {
  public:
    virtual ~Checkpoint() = default;

    [[nodiscard]] virtual const std::string& name() const noexcept = 0;
    [[nodiscard]] virtual const std::vector<std::string>& pieces() const noexcept = 0;
    [[nodiscard]] virtual std::size_t bytes() const noexcept = 0;

    /// Throws Error{kInvalidRequest | kInsufficientMemory}, std::bad_alloc.
    [[nodiscard]] virtual std::unique_ptr<Network> make_network(
        const NetworkLimits& limits) const = 0;
    /// What bytes() of a network with these limits would be.
    [[nodiscard]] virtual std::size_t network_bytes(const NetworkLimits& limits) const = 0;
};

/// Reads a checkpoint for the kernels that were chosen. With Allocation::kPlanned only metadata are
/// read, and the result tells nothing but sizes. Throws
/// Error{kModelFileInvalid | kInsufficientMemory}, std::bad_alloc.
[[nodiscard]] std::shared_ptr<const Checkpoint> load_checkpoint(const TensorSource& source,
                                                                Kernels kernels,
                                                                Allocation allocation);

}  // namespace wavepool::moonshine
