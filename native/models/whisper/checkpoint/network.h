#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "framework/compute/backend.h"
#include "models/whisper/checkpoint/checkpoint.h"

namespace wavepool::whisper {

struct NetworkLimits {
    std::int64_t rows = 1;     ///< windows that are decoded together
    std::int64_t samples = 0;  ///< length of the longest clip
    int threads = 1;
};

/// The input of one row in one decode step.
struct DecodeInput {
    std::int32_t token = 0;
    bool scored = true;  ///< whether the scores of what may follow are wanted
};

/// Encoder and decoder on kernels of our own, with the mutable state of one session: caches, and
/// what is in which row of them. Rows are independent: what one computes has the same bits whatever
/// is in the others, however many are decoded together, and for every number of threads. Used by
/// one thread at a time.
class Network {
  public:
    virtual ~Network() = default;

    /// Encodes `frames` frames of audio (20 ms each, 1 to kAudioContext), beginning `ticks` (10 ms)
    /// into a clip of at most limits.samples samples and ending in the silence after it, into
    /// `row`, and makes that ready to decode its first token. Throws Error{kCancelled} when
    /// aborted; the row then holds nothing.
    virtual void encode(std::span<const float> clip, std::int64_t ticks, std::int64_t frames,
                        std::int64_t row, const AbortCheck& abort) = 0;

    /// Decodes one step of rows 0 to inputs.size() - 1; each row takes at most kTextContext steps.
    /// Throws Error{kCancelled} when aborted; the rows then are where they were.
    virtual void decode(std::span<const DecodeInput> inputs, const AbortCheck& abort) = 0;

    /// The logits [vocabulary] of what may follow in a row whose last input was `scored`. The
    /// caller may change them; they are valid until the next step.
    [[nodiscard]] virtual std::span<float> scores(std::int64_t row) noexcept = 0;

    /// Row `to` takes over what row `from` holds.
    virtual void move_row(std::int64_t from, std::int64_t to) = 0;

    /// Resident bytes of caches and buffers.
    [[nodiscard]] virtual std::size_t bytes() const noexcept = 0;
};

/// The weights that networks compute with. Immutable.
class NetworkWeights {
  public:
    virtual ~NetworkWeights() = default;

    [[nodiscard]] virtual std::size_t bytes() const noexcept = 0;
    /// Throws Error{kInvalidRequest | kInsufficientMemory}, std::bad_alloc.
    [[nodiscard]] virtual std::unique_ptr<Network> make_network(
        const NetworkLimits& limits) const = 0;
    /// What bytes() of a network with these limits would be.
    [[nodiscard]] virtual std::size_t network_bytes(const NetworkLimits& limits) const = 0;
};

}  // namespace wavepool::whisper
