#include "models/moonshine/decoder_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/moonshine/layers.h"
#include "models/moonshine/vector_nodes.h"

namespace wavepool::moonshine {
namespace {

constexpr std::int64_t kTokenBucket = 32;
constexpr std::int64_t kFrameBucket = 64;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t bucket) {
    return (value + bucket - 1) / bucket * bucket;
}

std::size_t node_bound(const Config& config) {
    return static_cast<std::size_t>(32 + 64 * config.decoder_blocks);
}

template <typename T>
std::span<T> data_of(const ggml_tensor* tensor) {
    return {static_cast<T*>(tensor->data), static_cast<std::size_t>(ggml_nelements(tensor))};
}

/// Opens the first `open` positions of row `row` and closes the others. Closed positions are
/// skipped, not weighted with zero: what lies there never matters.
void fill_mask(const ggml_tensor* mask, std::int64_t row, std::int64_t open) {
    static const ggml_fp16_t kOpen = ggml_fp32_to_fp16(0.0F);
    static const ggml_fp16_t kClosed = ggml_fp32_to_fp16(-std::numeric_limits<float>::infinity());
    const auto positions = static_cast<std::size_t>(mask->ne[0]);
    const auto values =
        data_of<ggml_fp16_t>(mask).subspan(static_cast<std::size_t>(row) * positions, positions);
    const auto split = values.begin() + open;
    std::fill(values.begin(), split, kOpen);
    std::fill(split, values.end(), kClosed);
}

}  // namespace

DecoderGraph::DecoderGraph(const Weights& weights, Cache& cache, int threads, Allocation allocation)
    : weights_(weights), cache_(cache), memory_(node_bound(weights.config)) {
    build({.rows = cache.rows(), .tokens = cache.tokens(), .frames = cache.frames()});
    memory_.reserve(threads, allocation);
    shape_ = {};
}

ggml_cgraph* DecoderGraph::prepare(std::span<const DecodeInput> inputs) {
    Shape shape{.rows = static_cast<std::int64_t>(inputs.size())};
    for (std::int64_t row = 0; row < shape.rows; ++row) {
        shape.tokens = std::max(shape.tokens, round_up(cache_.row(row).tokens + 1, kTokenBucket));
        shape.frames = std::max(shape.frames, round_up(cache_.row(row).frames, kFrameBucket));
    }
    shape.tokens = std::min(shape.tokens, cache_.tokens());
    shape.frames = std::min(shape.frames, cache_.frames());
    if (shape != shape_) {
        shape_ = {};  // should building or placing fail
        build(shape);
        memory_.place();
        shape_ = shape;
    }
    for (std::int64_t row = 0; row < shape.rows; ++row) {
        const Cache::Row filled = cache_.row(row);
        const auto at = static_cast<std::size_t>(row);
        data_of<std::int32_t>(tokens_)[at] = inputs[at].token;
        data_of<std::int32_t>(excluded_)[at] = inputs[at].excluded;
        data_of<std::int32_t>(positions_)[at] = static_cast<std::int32_t>(filled.tokens);
        data_of<std::int64_t>(cache_positions_)[at] = row * cache_.tokens() + filled.tokens;
        fill_mask(self_mask_, row, filled.tokens + 1);
        fill_mask(cross_mask_, row, filled.frames);
    }
    return memory_.graph();
}

std::span<const std::int32_t> DecoderGraph::next() const noexcept {
    return data_of<const std::int32_t>(next_);
}

void DecoderGraph::build(const Shape& shape) {
    memory_.restart();
    ggml_context* context = memory_.context();
    const auto input = [&](ggml_type type, std::int64_t width) {
        ggml_tensor* tensor = ggml_new_tensor_4d(context, type, width, 1, 1, shape.rows);
        ggml_set_input(tensor);
        return tensor;
    };
    const auto input_row = [&](ggml_type type) {
        ggml_tensor* tensor = ggml_new_tensor_1d(context, type, shape.rows);
        ggml_set_input(tensor);
        return tensor;
    };
    tokens_ = input_row(GGML_TYPE_I32);
    excluded_ = input_row(GGML_TYPE_I32);
    positions_ = input_row(GGML_TYPE_I32);
    cache_positions_ = input_row(GGML_TYPE_I64);
    self_mask_ = input(GGML_TYPE_F16, shape.tokens);
    cross_mask_ = input(GGML_TYPE_F16, shape.frames);

    ggml_tensor* x = ggml_get_rows(context, weights_.embedding, tokens_);
    for (std::size_t i = 0; i < weights_.decoder.size(); ++i) {
        const DecoderBlock& block = weights_.decoder[i];
        const BlockCache& cache = cache_.block(i);
        x = ggml_add(context, x,
                     self_attention(block, cache, layer_norm(context, x, block.self_norm)));
        x = ggml_add(context, x,
                     cross_attention(block, cache, layer_norm(context, x, block.cross_norm)));
        x = ggml_add(context, x, feed_forward(block, layer_norm(context, x, block.mlp_norm)));
    }
    x = layer_norm(context, x, weights_.decoder_norm);
    next_ = argmax_node(context, ggml_mul_mat(context, weights_.embedding, x), excluded_);
    ggml_set_output(next_);
    ggml_build_forward_expand(memory_.graph(), next_);
}

ggml_tensor* DecoderGraph::self_attention(const DecoderBlock& block, const BlockCache& cache,
                                          ggml_tensor* x) {
    const Config& c = weights_.config;
    ggml_context* context = memory_.context();
    const std::int64_t rows = x->ne[1];
    ggml_tensor* joint = ggml_mul_mat(context, block.self_query_key_value, x);
    const auto heads = [&](std::int64_t part) {
        return ggml_view_3d(context, joint, c.head_width(), c.heads, rows,
                            static_cast<std::size_t>(c.head_width()) * sizeof(float), joint->nb[1],
                            static_cast<std::size_t>(part * c.width) * sizeof(float));
    };
    ggml_tensor* query = rotate(context, heads(0), positions_, c);
    ggml_tensor* key =
        ggml_reshape_2d(context, rotate(context, heads(1), positions_, c), c.width, rows);
    ggml_tensor* value = ggml_view_2d(context, joint, c.width, rows, joint->nb[1],
                                      static_cast<std::size_t>(2 * c.width) * sizeof(float));
    const auto store = [&](ggml_tensor* target, ggml_tensor* source) {
        ggml_tensor* all = ggml_reshape_2d(context, target, c.width, target->ne[1] * target->ne[2]);
        ggml_build_forward_expand(memory_.graph(),
                                  ggml_set_rows(context, all, source, cache_positions_));
    };
    store(cache.self_key, key);
    store(cache.self_value, value);
    return ggml_mul_mat(context, block.self_out,
                        attend(query, cache.self_key, cache.self_value, self_mask_));
}

ggml_tensor* DecoderGraph::cross_attention(const DecoderBlock& block, const BlockCache& cache,
                                           ggml_tensor* x) {
    ggml_context* context = memory_.context();
    ggml_tensor* query = ggml_mul_mat(context, block.cross_query, x);
    return ggml_mul_mat(context, block.cross_out,
                        attend(query, cache.cross_key, cache.cross_value, cross_mask_));
}

ggml_tensor* DecoderGraph::feed_forward(const DecoderBlock& block, ggml_tensor* x) {
    ggml_context* context = memory_.context();
    ggml_tensor* hidden = ggml_add(context, ggml_mul_mat(context, block.up, x), block.up_bias);
    hidden = ggml_swiglu_swapped(context, hidden);  // first half · silu(second half)
    return ggml_add(context, ggml_mul_mat(context, block.down, hidden), block.down_bias);
}

ggml_tensor* DecoderGraph::attend(ggml_tensor* query, ggml_tensor* key, ggml_tensor* value,
                                  ggml_tensor* mask) {
    const Config& c = weights_.config;
    ggml_context* context = memory_.context();
    const std::int64_t rows = mask->ne[3];
    const auto heads = [&](ggml_tensor* cache) {
        const std::size_t size = ggml_type_size(cache->type);
        return ggml_view_4d(context, cache, c.head_width(), mask->ne[0], c.heads, rows,
                            cache->nb[1], static_cast<std::size_t>(c.head_width()) * size,
                            cache->nb[2], 0);
    };
    query = ggml_reshape_4d(context, query, c.head_width(), 1, c.heads, rows);
    ggml_tensor* mixed = ggml_flash_attn_ext(context, query, heads(key), heads(value), mask,
                                             attention_scale(c), 0, 0);
    return ggml_reshape_2d(context, mixed, c.width, rows);
}

}  // namespace wavepool::moonshine
