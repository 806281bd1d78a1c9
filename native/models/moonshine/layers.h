#pragma once

#include "models/moonshine/weights.h"

namespace wavepool::moonshine {

// The parts of a graph that encoder and decoder share.

inline constexpr float kNormEpsilon = 1e-5F;

/// 1 / √head width.
[[nodiscard]] float attention_scale(const Config& config) noexcept;

/// Layer norm without a bias.
[[nodiscard]] ggml_tensor* layer_norm(ggml_context* context, ggml_tensor* x, ggml_tensor* weight);

/// Rotary position embedding of `heads` [head width, heads, n] in interleaved pairs.
[[nodiscard]] ggml_tensor* rotate(ggml_context* context, ggml_tensor* heads, ggml_tensor* positions,
                                  const Config& config);
/// Like rotate(), but in place: it changes its operand.
[[nodiscard]] ggml_tensor* rotate_in_place(ggml_context* context, ggml_tensor* heads,
                                           ggml_tensor* positions, const Config& config);

}  // namespace wavepool::moonshine
