#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "framework/compute/backend.h"
#include "models/moonshine/weights.h"

namespace wavepool::moonshine {

struct NetworkLimits {
    std::int64_t rows = 1;     ///< clips that are decoded together
    std::int64_t samples = 0;  ///< length of the longest clip
    std::int64_t tokens = 0;   ///< decode steps of the longest clip
    int threads = 1;
};

inline constexpr std::int32_t kNoToken = -1;

/// The input of one row in one decode step.
struct DecodeInput {
    std::int32_t token = kNoToken;     ///< the last one
    std::int32_t excluded = kNoToken;  ///< may not follow, however likely; kNoToken: any may
};

/// One way to compute the model, with the mutable state of one session: graphs, caches and what is
/// in which row of them. Rows are independent: what one computes has the same bits whatever is in
/// the others and however many are decoded together. Used by one thread at a time.
class Network {
  public:
    virtual ~Network() = default;

    /// Encodes a clip of 1 to limits.samples samples into `row` and makes it ready to decode from
    /// the start token. Throws Error{kCancelled} when aborted; the row then holds nothing.
    virtual void encode(std::span<const float> samples, std::int64_t row,
                        const AbortCheck& abort) = 0;

    /// Decodes one step of rows 0 to inputs.size() - 1: feeds each row its token and writes to
    /// next[row] the most likely one that may follow. Throws Error{kCancelled} when aborted; the
    /// rows then are where they were.
    virtual void decode(std::span<const DecodeInput> inputs, std::span<std::int32_t> next,
                        const AbortCheck& abort) = 0;

    /// Row `to` takes over what row `from` holds.
    virtual void move_row(std::int64_t from, std::int64_t to) = 0;

    /// Resident bytes of caches, graphs and compute buffers.
    [[nodiscard]] virtual std::size_t bytes() const noexcept = 0;
};

/// Computes with ggml's own operations, on any CPU. Allocates all memory of `limits` now. Throws
/// Error{kInvalidRequest | kInsufficientMemory}.
[[nodiscard]] std::unique_ptr<Network> make_stock_network(std::shared_ptr<const Weights> weights,
                                                          const NetworkLimits& limits);

/// What bytes() of such a network would be. The weights may be planned ones.
[[nodiscard]] std::size_t stock_network_bytes(const Weights& weights, const NetworkLimits& limits);

}  // namespace wavepool::moonshine
