#include "models/moonshine/layers.h"

#include <cmath>

namespace wavepool::moonshine {

float attention_scale(const Config& config) noexcept {
    return 1.0F / std::sqrt(static_cast<float>(config.head_width()));
}

ggml_tensor* layer_norm(ggml_context* context, ggml_tensor* x, ggml_tensor* weight) {
    return ggml_mul(context, ggml_norm(context, x, kNormEpsilon), weight);
}

ggml_tensor* rotate(ggml_context* context, ggml_tensor* heads, ggml_tensor* positions,
                    const Config& config) {
    constexpr float kBase = 10000.0F;
    return ggml_rope_ext(context, heads, positions, /*freq_factors=*/nullptr,
                         static_cast<int>(config.rotary_dimensions), GGML_ROPE_TYPE_NORMAL,
                         /*n_ctx_orig=*/0, kBase, /*freq_scale=*/1, /*ext_factor=*/0,
                         /*attn_factor=*/1, /*beta_fast=*/32, /*beta_slow=*/1);
}

}  // namespace wavepool::moonshine
