#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "models/moonshine/cache.h"
#include "models/moonshine/front_end.h"
#include "models/moonshine/graph_memory.h"
#include "models/moonshine/vector_nodes.h"

namespace wavepool::moonshine {

/// The encoder from samples to the decoder's cross keys and values, one clip at a time: a clip
/// brings over a hundred frames of its own, so a batch would gain nothing, and a group norm over
/// the whole clip would have to know which frames are whose.
class EncoderGraph {
  public:
    EncoderGraph(const Weights& weights, std::int64_t samples, Cache& cache, int threads,
                 Allocation allocation = Allocation::kReal);
    EncoderGraph(const EncoderGraph&) = delete;
    EncoderGraph& operator=(const EncoderGraph&) = delete;

    /// The graph, with its inputs set, that encodes these samples (16 kHz, at most as many as the
    /// constructor was told) into `row` of the cache; valid until the next call.
    [[nodiscard]] ggml_cgraph* prepare(std::span<const float> samples, std::int64_t row);

    [[nodiscard]] const GraphMemory& memory() const noexcept { return memory_; }

  private:
    void build(std::int64_t samples, std::int64_t row);
    ggml_tensor* front_end(ggml_tensor* samples, const FrameCounts& counts) const;
    ggml_tensor* attention(const EncoderBlock& block, ggml_tensor* x) const;
    ggml_tensor* feed_forward(const EncoderBlock& block, ggml_tensor* x) const;
    void store_cross_keys_and_values(ggml_tensor* encoded, std::int64_t frames, std::int64_t row);

    const Weights& weights_;
    const Cache& cache_;
    SoftmaxParameters softmax_;
    GraphMemory memory_;
    // The inputs of the current graph.
    ggml_tensor* samples_ = nullptr;
    ggml_tensor* positions_ = nullptr;
};

}  // namespace wavepool::moonshine
