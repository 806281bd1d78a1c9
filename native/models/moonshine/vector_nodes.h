#pragma once

#include <cstddef>

#include "framework/compute/backend.h"

namespace wavepool::moonshine {

// Functions of kernels/vector_math.h as graph nodes; all but the last change their operand.

[[nodiscard]] ggml_tensor* tanh_node(ggml_context* context, ggml_tensor* x);
[[nodiscard]] ggml_tensor* add_gelu_node(ggml_context* context, ggml_tensor* x, ggml_tensor* bias);

struct SoftmaxParameters {
    std::size_t length = 0;
    float scale = 1;
};
/// `parameters` must outlive the graph.
[[nodiscard]] ggml_tensor* softmax_node(ggml_context* context, ggml_tensor* scores,
                                        const SoftmaxParameters* parameters);
/// One index per row; `excluded` (i32) names an index of each row that is no candidate, or is
/// negative.
[[nodiscard]] ggml_tensor* argmax_node(ggml_context* context, ggml_tensor* rows,
                                       ggml_tensor* excluded);

}  // namespace wavepool::moonshine
