#include "models/moonshine/encoder_graph.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/moonshine/layers.h"

namespace wavepool::moonshine {
namespace {

/// The matrix kernels compute eight frames at a time.
constexpr std::int64_t kFrameBlock = 8;

/// Parts in which a convolution computes its columns: each column is an f16 copy of all its taps
/// while it is being multiplied. A fixed number, not a fixed length, so that a part takes less than
/// the samples did, in whose place it then is, and a longer clip never needs less memory.
constexpr std::int64_t kConvolutionParts = 4;

/// `columns` columns from `first` on, each `taps` successive frames of `x` [channels, frames], one
/// every `stride` frames: the operand of a convolution as a matrix product. Columns overlap, which
/// ggml_view_2d would refuse by its bounds check, so a view of one column is stretched; the caller
/// computes `columns` so that the last one ends within `x`.
ggml_tensor* overlapping_columns(ggml_context* context, ggml_tensor* x, std::int64_t taps,
                                 std::int64_t stride, std::int64_t first, std::int64_t columns) {
    const std::int64_t channels = x->ne[0];
    const std::size_t step = static_cast<std::size_t>(stride) * x->nb[1];
    ggml_tensor* view = ggml_view_2d(context, x, taps * channels, 1, x->nb[1],
                                     static_cast<std::size_t>(first) * step);
    view->ne[1] = columns;
    view->nb[1] = step;
    view->nb[2] = view->nb[1] * static_cast<std::size_t>(columns);
    view->nb[3] = view->nb[2];
    return view;
}

/// Convolves part by part, each of which takes the place of frames that no later one reads: a
/// column of the result must not be longer than `stride` frames.
ggml_tensor* convolve_in_place(ggml_context* context, ggml_tensor* weight, ggml_tensor* x,
                               std::int64_t taps, std::int64_t stride, std::int64_t columns) {
    const std::int64_t channels = weight->ne[1];
    const std::size_t row = static_cast<std::size_t>(channels) * sizeof(float);
    for (std::int64_t part = 0; part < kConvolutionParts; ++part) {
        const std::int64_t first = columns * part / kConvolutionParts;
        const std::int64_t count = columns * (part + 1) / kConvolutionParts - first;
        if (count == 0) continue;
        ggml_tensor* result = ggml_mul_mat(
            context, weight, overlapping_columns(context, x, taps, stride, first, count));
        x = ggml_set_2d_inplace(context, x, result, row, static_cast<std::size_t>(first) * row);
    }
    return ggml_view_2d(context, x, channels, columns, row, 0);
}

std::size_t node_bound(const Config& config) {
    return static_cast<std::size_t>(128 + (32 + 12 * config.heads) * config.encoder_blocks +
                                    16 * config.decoder_blocks);
}

}  // namespace

EncoderGraph::EncoderGraph(const Weights& weights, std::int64_t samples, Cache& cache, int threads,
                           Allocation allocation)
    : weights_(weights), cache_(cache), memory_(node_bound(weights.config)) {
    build(samples, 0);
    memory_.reserve(threads, allocation);
}

ggml_cgraph* EncoderGraph::prepare(std::span<const float> samples, std::int64_t row) {
    build(static_cast<std::int64_t>(samples.size()), row);
    memory_.place();
    const std::span input(static_cast<float*>(samples_->data),
                          static_cast<std::size_t>(ggml_nelements(samples_)));
    // The last samples may not fill a frame; a short clip is followed by silence.
    const std::size_t used = std::min(input.size(), samples.size());
    std::ranges::copy(samples.first(used), input.begin());
    std::ranges::fill(input.subspan(used), 0.0F);
    const std::span positions(static_cast<std::int32_t*>(positions_->data),
                              static_cast<std::size_t>(positions_->ne[0]));
    std::iota(positions.begin(), positions.end(), 0);
    return memory_.graph();
}

void EncoderGraph::build(std::int64_t samples, std::int64_t row) {
    const FrameCounts counts = frame_counts(samples);
    const std::int64_t padded = (counts.frames + kFrameBlock - 1) / kFrameBlock * kFrameBlock;
    softmax_ = {.length = static_cast<std::size_t>(counts.frames),
                .scale = attention_scale(weights_.config)};
    memory_.restart();
    ggml_context* context = memory_.context();
    samples_ = ggml_new_tensor_2d(context, GGML_TYPE_F32, 1,
                                  (counts.conv1 - 1) * kConv1Stride + kConv1Taps);
    positions_ = ggml_new_tensor_1d(context, GGML_TYPE_I32, padded);
    ggml_set_input(samples_);
    ggml_set_input(positions_);

    ggml_tensor* x = front_end(samples_, counts);
    x = ggml_pad(context, x, 0, static_cast<int>(padded - counts.frames), 0, 0);
    for (const EncoderBlock& block : weights_.encoder) {
        x = ggml_add(context, x, attention(block, layer_norm(context, x, block.attention_norm)));
        x = ggml_add(context, x, feed_forward(block, layer_norm(context, x, block.mlp_norm)));
    }
    store_cross_keys_and_values(layer_norm(context, x, weights_.encoder_norm), counts.frames, row);
}

ggml_tensor* EncoderGraph::front_end(ggml_tensor* samples, const FrameCounts& counts) const {
    const Weights& w = weights_;
    ggml_context* context = memory_.context();
    ggml_tensor* x = ggml_mul_mat(
        context, w.conv1,
        overlapping_columns(context, samples, kConv1Taps, kConv1Stride, 0, counts.conv1));
    x = tanh_node(context, x);
    // The group norm has one group: all channels and frames of the clip.
    ggml_tensor* flat = ggml_reshape_1d(context, x, ggml_nelements(x));
    x = ggml_reshape_2d(context, ggml_norm_inplace(context, flat, kNormEpsilon), w.config.width,
                        counts.conv1);
    x = ggml_mul_inplace(context, x, w.group_norm);
    x = ggml_add_inplace(context, x, w.group_norm_bias);
    x = convolve_in_place(context, w.conv2, x, kConv2Kernel, kConv2Stride, counts.conv2);
    x = add_gelu_node(context, x, w.conv2_bias);
    x = convolve_in_place(context, w.conv3, x, kConv3Kernel, kConv3Stride, counts.frames);
    return add_gelu_node(context, x, w.conv3_bias);
}

ggml_tensor* EncoderGraph::attention(const EncoderBlock& block, ggml_tensor* x) const {
    const Config& c = weights_.config;
    ggml_context* context = memory_.context();
    const std::int64_t frames = x->ne[1];
    const std::int64_t padded = c.padded_head_width();
    ggml_tensor* joint = ggml_mul_mat(context, block.query_key_value, x);
    // Queries and keys lie side by side, values behind them.
    ggml_tensor* rotated = rotate_in_place(
        context,
        ggml_view_3d(context, joint, padded, 2 * c.heads, frames,
                     static_cast<std::size_t>(padded) * sizeof(float), joint->nb[1], 0),
        positions_, c);
    const auto columns = [&](ggml_tensor* from, std::int64_t first, std::int64_t width) {
        return ggml_view_2d(context, from, width, frames, joint->nb[1],
                            static_cast<std::size_t>(first) * sizeof(float));
    };
    // Head by head, so that the scores [keys, queries] of only one exist at a time. The weighted
    // sums of values take the place of queries that have been used.
    ggml_tensor* mixed = joint;
    for (std::int64_t head = 0; head < c.heads; ++head) {
        const std::int64_t place = head * c.head_width();
        ggml_tensor* query = ggml_cont(context, columns(rotated, head * padded, padded));
        ggml_tensor* key = columns(rotated, (c.heads + head) * padded, padded);
        ggml_tensor* value = ggml_cont(
            context,
            ggml_transpose(context, columns(joint, 2 * c.heads * padded + place, c.head_width())));
        ggml_tensor* scores = softmax_node(context, ggml_mul_mat(context, key, query), &softmax_);
        mixed = ggml_set_2d_inplace(context, mixed, ggml_mul_mat(context, value, scores),
                                    joint->nb[1], static_cast<std::size_t>(place) * sizeof(float));
    }
    return ggml_mul_mat(context, block.attention_out, columns(mixed, 0, c.width));
}

ggml_tensor* EncoderGraph::feed_forward(const EncoderBlock& block, ggml_tensor* x) const {
    ggml_context* context = memory_.context();
    ggml_tensor* hidden = ggml_mul_mat(context, block.up, x);
    hidden = add_gelu_node(context, hidden, block.up_bias);
    return ggml_add(context, ggml_mul_mat(context, block.down, hidden), block.down_bias);
}

void EncoderGraph::store_cross_keys_and_values(ggml_tensor* encoded, std::int64_t frames,
                                               std::int64_t row) {
    ggml_context* context = memory_.context();
    const std::int64_t width = weights_.config.width;
    for (std::size_t i = 0; i < weights_.decoder.size(); ++i) {
        ggml_tensor* joint = ggml_mul_mat(context, weights_.decoder[i].cross_key_value, encoded);
        const auto store = [&](ggml_tensor* cache, std::int64_t first) {
            ggml_tensor* source = ggml_view_2d(context, joint, width, frames, joint->nb[1],
                                               static_cast<std::size_t>(first) * sizeof(float));
            ggml_tensor* target = ggml_view_2d(context, cache, width, frames, cache->nb[1],
                                               static_cast<std::size_t>(row) * cache->nb[2]);
            ggml_build_forward_expand(memory_.graph(), ggml_cpy(context, source, target));
        };
        store(cache_.block(i).cross_key, 0);
        store(cache_.block(i).cross_value, width);
    }
}

}  // namespace wavepool::moonshine
