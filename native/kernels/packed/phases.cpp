#include "kernels/packed/phases.h"

#include <utility>

#include "framework/error.h"

namespace wavepool::kernels {
namespace {

void run_phase(ggml_tensor* /*node*/, int index, int threads, void* phase) {
    (*static_cast<const Phases::Phase*>(phase))(index, threads);
}

}  // namespace

Phases::Phases(Arena& arena, std::size_t most) : place_(arena.take<std::int32_t>(1)) {
    const std::size_t nodes = most + 1;
    const std::size_t size =
        nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(nodes, false);
    const std::span<std::byte> memory = arena.take<std::byte>(static_cast<std::int64_t>(size));
    if (arena.allocation() == Allocation::kPlanned) return;
    context_.reset(ggml_init({memory.size(), memory.data(), true}));
    if (!context_) throw Error(ErrorCode::kInsufficientMemory, "building a graph");
    graph_ = ggml_new_graph_custom(context_.get(), nodes, false);
    last_ = ggml_new_tensor_1d(context_.get(), GGML_TYPE_I32, 1);
    last_->data = place_.data();
}

void Phases::add(Phase phase) {
    if (!context_) return;
    phases_.push_back(std::move(phase));
    last_ = ggml_custom_4d(context_.get(), GGML_TYPE_I32, 1, 1, 1, 1, &last_, 1, run_phase,
                           GGML_N_TASKS_MAX, &phases_.back());
    last_->data = place_.data();
    ggml_build_forward_expand(graph_, last_);
}

}  // namespace wavepool::kernels
