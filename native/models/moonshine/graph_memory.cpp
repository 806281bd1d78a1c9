#include "models/moonshine/graph_memory.h"

#include "framework/error.h"

namespace wavepool::moonshine {

namespace {

/// The address of tensors that are only planned: not null, which would mean "yet to be allocated".
void* planned_address() noexcept {
    alignas(64) static std::byte place[64];
    return place;
}

}  // namespace

std::size_t place_tensors(ggml_context* context, Allocation allocation, BufferPtr& buffer,
                          const char* what) {
    if (allocation == Allocation::kPlanned) {
        const std::size_t bytes =
            ggml_backend_alloc_ctx_tensors_from_buft_size(context, ggml_backend_cpu_buffer_type());
        for (ggml_tensor* tensor = ggml_get_first_tensor(context); tensor != nullptr;
             tensor = ggml_get_next_tensor(context, tensor)) {
            tensor->data = planned_address();
        }
        return bytes;
    }
    buffer.reset(ggml_backend_alloc_ctx_tensors_from_buft(context, ggml_backend_cpu_buffer_type()));
    if (!buffer) throw Error(ErrorCode::kInsufficientMemory, what);
    return ggml_backend_buffer_get_size(buffer.get());
}

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

void GraphMemory::reserve(int threads, Allocation allocation) {
    if (allocation == Allocation::kPlanned) {
        ggml_gallocr_reserve_n_size(allocator_.get(), graph_, nullptr, nullptr, &buffer_bytes_);
    } else {
        if (!ggml_gallocr_reserve(allocator_.get(), graph_)) {
            throw Error(ErrorCode::kInsufficientMemory,
                        "allocating the compute buffer of a session");
        }
        buffer_bytes_ = ggml_gallocr_get_buffer_size(allocator_.get(), 0);
    }
    work_bytes_ = ggml_graph_plan(graph_, threads, nullptr).work_size;
}

void GraphMemory::place() {
    if (!ggml_gallocr_alloc_graph(allocator_.get(), graph_)) {
        throw Error(ErrorCode::kInsufficientMemory, "growing the compute buffer of a session");
    }
}

std::size_t GraphMemory::bytes() const noexcept { return memory_.size() + buffer_bytes_; }

}  // namespace wavepool::moonshine
