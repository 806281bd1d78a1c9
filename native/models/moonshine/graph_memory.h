#pragma once

#include <cstddef>
#include <vector>

#include "framework/compute/backend.h"

namespace wavepool::moonshine {

/// Places the tensors of a context that has none placed, in one buffer. Returns its size. Throws
/// Error{kInsufficientMemory} saying `what` it was for.
[[nodiscard]] std::size_t place_tensors(ggml_context* context, Allocation allocation,
                                        BufferPtr& buffer, const char* what);

/// The memory of one graph that is rebuilt for each shape: the memory of its nodes and the buffer
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
    void reserve(int threads, Allocation allocation);
    /// Gives every tensor of the graph its place. Throws Error{kInsufficientMemory}.
    void place();

    /// Resident bytes, without work_bytes().
    [[nodiscard]] std::size_t bytes() const noexcept;
    /// Bytes that the backend needs besides while it computes; the graphs of one backend share
    /// them.
    [[nodiscard]] std::size_t work_bytes() const noexcept { return work_bytes_; }

  private:
    std::size_t nodes_;
    std::vector<std::byte> memory_;
    GraphAllocatorPtr allocator_;
    std::size_t buffer_bytes_ = 0;
    std::size_t work_bytes_ = 0;
    ContextPtr context_;
    ggml_cgraph* graph_ = nullptr;
};

}  // namespace wavepool::moonshine
