#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "models/moonshine/cache.h"
#include "models/moonshine/graph_memory.h"
#include "models/moonshine/network.h"

namespace wavepool::moonshine {

/// One decode step of the first rows of the cache. The graph is rebuilt only when the number of
/// rows, or the number of positions rounded up to a bucket (or the whole cache), changes.
class DecoderGraph {
  public:
    DecoderGraph(const Weights& weights, Cache& cache, int threads,
                 Allocation allocation = Allocation::kReal);
    DecoderGraph(const DecoderGraph&) = delete;
    DecoderGraph& operator=(const DecoderGraph&) = delete;

    /// The graph that feeds inputs[i] to row i at the row's current position; valid until the next
    /// call.
    [[nodiscard]] ggml_cgraph* prepare(std::span<const DecodeInput> inputs);
    /// The most likely token of each row that is not excluded, [rows]; valid after computing.
    [[nodiscard]] std::span<const std::int32_t> next() const noexcept;

    [[nodiscard]] const GraphMemory& memory() const noexcept { return memory_; }

  private:
    struct Shape {
        std::int64_t rows = 0;
        std::int64_t tokens = 0;
        std::int64_t frames = 0;
        bool operator==(const Shape&) const = default;
    };

    void build(const Shape& shape);
    ggml_tensor* self_attention(const DecoderBlock& block, const BlockCache& cache, ggml_tensor* x);
    ggml_tensor* cross_attention(const DecoderBlock& block, const BlockCache& cache,
                                 ggml_tensor* x);
    ggml_tensor* feed_forward(const DecoderBlock& block, ggml_tensor* x);
    ggml_tensor* attend(ggml_tensor* query, ggml_tensor* key, ggml_tensor* value,
                        ggml_tensor* mask);

    const Weights& weights_;
    Cache& cache_;
    GraphMemory memory_;
    // The shape of the current graph, and its inputs and output.
    Shape shape_;
    ggml_tensor* tokens_ = nullptr;
    ggml_tensor* excluded_ = nullptr;
    ggml_tensor* positions_ = nullptr;
    ggml_tensor* cache_positions_ = nullptr;
    ggml_tensor* self_mask_ = nullptr;
    ggml_tensor* cross_mask_ = nullptr;
    ggml_tensor* next_ = nullptr;
};

}  // namespace wavepool::moonshine
