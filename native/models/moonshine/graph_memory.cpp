#include "models/moonshine/graph_memory.h"

#include "framework/error.h"

namespace wavepool::moonshine {

GraphMemory::GraphMemory(std::size_t nodes)
    : nodes_(nodes),
      memory_(nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(nodes, false)),
      allocator_(ggml_gallocr_new(ggml_backend_cpu_buffer_type())) {
    if (!allocator_) throw Error(ErrorCode::kInsufficientMemory, "allocating a graph");
}

void GraphMemory::restart() {
    context_.reset();
    context_.reset(ggml_init({memory_.size(), memory_.data(), true}));
    if (!context_) throw Error(ErrorCode::kInsufficientMemory, "building a graph");
    graph_ = ggml_new_graph_custom(context_.get(), nodes_, false);
}

void GraphMemory::reserve(int threads) {
    if (!ggml_gallocr_reserve(allocator_.get(), graph_)) {
        throw Error(ErrorCode::kInsufficientMemory, "allocating the compute buffer of a session");
    }
    work_bytes_ = ggml_graph_plan(graph_, threads, nullptr).work_size;
}

void GraphMemory::place() {
    if (!ggml_gallocr_alloc_graph(allocator_.get(), graph_)) {
        throw Error(ErrorCode::kInsufficientMemory, "growing the compute buffer of a session");
    }
}

std::size_t GraphMemory::bytes() const noexcept {
    return memory_.size() + ggml_gallocr_get_buffer_size(allocator_.get(), 0) + work_bytes_;
}

}  // namespace wavepool::moonshine
