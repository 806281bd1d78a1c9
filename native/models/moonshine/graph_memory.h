#pragma once

#include <cstddef>
#include <vector>

#include "framework/backend.h"

namespace wavepool::moonshine {

/// What one graph that is rebuilt for each shape lives in: the memory of its nodes and the buffer
/// of its intermediate results. Both are allocated once, for the largest shape.
class GraphMemory {
  public:
    /// `nodes` bounds the tensors and nodes of the graph. Throws Error{kInsufficientMemory}.
    explicit GraphMemory(std::size_t nodes);

    /// Forgets the current graph and starts the next one.
    void restart();
    [[nodiscard]] ggml_context* context() const noexcept { return context_.get(); }
    [[nodiscard]] ggml_cgraph* graph() const noexcept { return graph_; }

    /// Makes room for the graph as it is now, which no later one exceeds, computed by `threads`.
    /// Throws Error{kInsufficientMemory}.
    void reserve(int threads);
    /// Gives every tensor of the graph its place. Throws Error{kInsufficientMemory}.
    void place();

    [[nodiscard]] std::size_t bytes() const noexcept;

  private:
    std::size_t nodes_;
    std::vector<std::byte> memory_;
    GraphAllocatorPtr allocator_;
    std::size_t work_bytes_ = 0;  // that the backend needs while computing
    ContextPtr context_;
    ggml_cgraph* graph_ = nullptr;
};

}  // namespace wavepool::moonshine
