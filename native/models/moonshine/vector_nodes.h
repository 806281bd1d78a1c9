#pragma once

#include <cstddef>

#include "framework/compute/backend.h"

namespace wavepool::moonshine {

// Functions of kernels/vector_math.h as nodes of a graph. All but the last work in place: they
// change their operand.

[[nodiscard]] ggml_tensor* tanh_node(ggml_context* context, ggml_tensor* x);
[[nodiscard]] ggml_tensor* add_gelu_node(ggml_context* context, ggml_tensor* x, ggml_tensor* bias);

struct SoftmaxParameters {
    std::size_t length = 0;
    float scale = 1;
};
/// `parameters` must outlive the graph.
[[nodiscard]] ggml_tensor* softmax_node(ggml_context* context, ggml_tensor* scores,
                                        const SoftmaxParameters* parameters);
/// The index of the largest value of each of the `rows` [width, n], as i32 [n]. `excluded` (i32
/// [n]) names for each row an index that is no candidate; a negative one excludes none.
[[nodiscard]] ggml_tensor* argmax_node(ggml_context* context, ggml_tensor* rows,
                                       ggml_tensor* excluded);

}  // namespace wavepool::moonshine
