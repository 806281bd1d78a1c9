#include "models/moonshine/layers.h"

#include <cmath>

namespace wavepool::moonshine {
namespace {

ggml_tensor* rotate_with(decltype(ggml_rope_ext)* rope, ggml_context* context, ggml_tensor* heads,
                         ggml_tensor* positions, const Config& config) {
    constexpr float kBase = 10000.0F;
    return rope(context, heads, positions, /*freq_factors=*/nullptr,
                static_cast<int>(config.rotary_dimensions), GGML_ROPE_TYPE_NORMAL,
                /*n_ctx_orig=*/0, kBase, /*freq_scale=*/1, /*ext_factor=*/0,
                /*attn_factor=*/1, /*beta_fast=*/32, /*beta_slow=*/1);
}

}  // namespace

float attention_scale(const Config& config) noexcept {
    return 1.0F / std::sqrt(static_cast<float>(config.head_width()));
}

ggml_tensor* layer_norm(ggml_context* context, ggml_tensor* x, ggml_tensor* weight) {
    return ggml_mul(context, ggml_norm(context, x, kNormEpsilon), weight);
}

ggml_tensor* rotate(ggml_context* context, ggml_tensor* heads, ggml_tensor* positions,
                    const Config& config) {
    return rotate_with(ggml_rope_ext, context, heads, positions, config);
}

ggml_tensor* rotate_in_place(ggml_context* context, ggml_tensor* heads, ggml_tensor* positions,
                             const Config& config) {
    return rotate_with(ggml_rope_ext_inplace, context, heads, positions, config);
}

}  // namespace wavepool::moonshine
