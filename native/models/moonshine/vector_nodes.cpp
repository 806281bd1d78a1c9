#include "models/moonshine/vector_nodes.h"

#include <array>
#include <span>

#include "kernels/vector_math.h"

namespace wavepool::moonshine {

using namespace kernels;

namespace {

/// The part [begin, end) of `count` that thread `index` of `threads` does.
struct Share {
    Share(std::int64_t count, int index, int threads)
        : begin(count * index / threads), end(count * (index + 1) / threads) {}
    std::int64_t begin;
    std::int64_t end;
};

std::span<float> row_of(const ggml_tensor* tensor, std::int64_t row) {
    const auto width = static_cast<std::size_t>(tensor->ne[0]);
    return {static_cast<float*>(tensor->data) + static_cast<std::size_t>(row) * width, width};
}

void tanh_op(ggml_tensor* x, const ggml_tensor* /*operand*/, int index, int threads,
             void* /*data*/) {
    const Share rows(ggml_nrows(x), index, threads);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) tanh_in_place(row_of(x, row));
}

void add_gelu_op(ggml_tensor* x, const ggml_tensor* /*operand*/, const ggml_tensor* bias, int index,
                 int threads, void* /*data*/) {
    const Share rows(ggml_nrows(x), index, threads);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        add_gelu_in_place(row_of(x, row), row_of(bias, 0));
    }
}

void softmax_op(ggml_tensor* x, const ggml_tensor* /*operand*/, int index, int threads,
                void* data) {
    const auto& parameters = *static_cast<const SoftmaxParameters*>(data);
    const Share rows(ggml_nrows(x), index, threads);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        softmax_in_place(row_of(x, row), parameters.length, parameters.scale);
    }
}

void argmax_op(ggml_tensor* result, int index, int threads, void* /*data*/) {
    const ggml_tensor* rows = result->src[0];
    const auto* excluded = static_cast<const std::int32_t*>(result->src[1]->data);
    const Share share(ggml_nrows(rows), index, threads);
    for (std::int64_t row = share.begin; row < share.end; ++row) {
        const std::span<const float> values = row_of(rows, row);
        static_cast<std::int32_t*>(result->data)[row] =
            excluded[row] < 0 ? argmax(values)
                              : argmax_except(values, static_cast<std::size_t>(excluded[row]));
    }
}

}  // namespace

ggml_tensor* tanh_node(ggml_context* context, ggml_tensor* x) {
    return ggml_map_custom1_inplace(context, x, tanh_op, GGML_N_TASKS_MAX, nullptr);
}

ggml_tensor* add_gelu_node(ggml_context* context, ggml_tensor* x, ggml_tensor* bias) {
    return ggml_map_custom2_inplace(context, x, bias, add_gelu_op, GGML_N_TASKS_MAX, nullptr);
}

ggml_tensor* softmax_node(ggml_context* context, ggml_tensor* scores,
                          const SoftmaxParameters* parameters) {
    // ggml's callback takes a mutable pointer; softmax_op only reads.
    return ggml_map_custom1_inplace(context, scores, softmax_op, GGML_N_TASKS_MAX,
                                    const_cast<SoftmaxParameters*>(parameters));
}

ggml_tensor* argmax_node(ggml_context* context, ggml_tensor* rows, ggml_tensor* excluded) {
    std::array<ggml_tensor*, 2> operands{rows, excluded};
    return ggml_custom_4d(context, GGML_TYPE_I32, ggml_nrows(rows), 1, 1, 1, operands.data(),
                          static_cast<int>(operands.size()), argmax_op, GGML_N_TASKS_MAX, nullptr);
}

}  // namespace wavepool::moonshine
