#include "models/moonshine/packed/packed_encoder.h"

#include <algorithm>
#include <cmath>

#include "kernels/float8.h"
#include "kernels/vector_math.h"
#include "models/moonshine/layers.h"

namespace wavepool::moonshine {
namespace {

/// Frames that go through a block together: their columns fit the second-level cache beside the
/// weights. A multiple of what the tile kernels take at once.
constexpr std::int64_t kGroup = 48;
/// The same for the convolutions, which need several frames of the step before for each of theirs.
constexpr std::int64_t kConvolutionGroup = 12;

std::int64_t longest_column(const Config& c) {
    return std::max(
        {c.feed_forward, kConv1Taps, kConv2Kernel * c.width, 2 * kConv3Kernel * c.width});
}

constexpr std::int64_t conv2_frames(std::int64_t frames) {
    return (frames - 1) * kConv3Stride + kConv3Kernel;
}

constexpr std::int64_t conv1_frames(std::int64_t conv2_frames) {
    return (conv2_frames - 1) * kConv2Stride + kConv2Kernel;
}

/// Calls `work`(first, count) for the groups of a share.
template <typename Work>
void for_groups(const Share& share, std::int64_t size, Work work) {
    for (std::int64_t first = share.begin; first < share.end; first += size) {
        work(first, std::min(size, share.end - first));
    }
}

}  // namespace

PackedEncoder::PackedEncoder(Arena& arena, const PackedWeights& weights, const Tiles& tiles,
                             const Rotary& rotary, std::int64_t samples, int threads)
    : weights_(weights),
      config_(weights.config()),
      tiles_(tiles),
      rotary_(rotary),
      phases_(arena, 2 * weights.encoder.size() + 3) {
    const Config& c = config_;
    const FrameCounts counts = frame_counts(samples);
    const std::int64_t positions = padded_positions(counts.frames);
    value_stride_ = counts.frames * c.head_width() + kLanes;
    sums_ = arena.take<double>(2 * counts.conv1);
    const std::int64_t queries = counts.frames * c.width;
    const std::int64_t keys = positions * c.width;
    const std::int64_t values = c.heads * value_stride_;
    const std::int64_t halves = counts.conv1 * c.width;
    const std::span<float> place =
        arena.take<float>(std::max((halves + 1) / 2, queries + keys + values));
    frames_ = arena.take<float>(counts.frames * c.width);
    for (int i = 0; i < threads; ++i) {
        Scratch scratch;
        const std::int64_t most =
            std::max(kGroup * c.feed_forward, conv2_frames(kConvolutionGroup) * longest_column(c));
        scratch.columns = take_columns(arena, kGroup, 1);
        scratch.columns.values = arena.take<std::int16_t>(most);
        scratch.frames = arena.take<float>(
            std::max(kGroup, conv1_frames(conv2_frames(kConvolutionGroup))) * c.width + kConv1Taps);
        scratch.hidden = arena.take<float>(std::max(kGroup * std::max(c.feed_forward, 3 * c.width),
                                                    conv2_frames(kConvolutionGroup) * 2 * c.width));
        scratch.scores = arena.take<float>(kQueriesAtOnce * positions);
        scratch_.push_back(scratch);
    }
    if (arena.allocation() == Allocation::kPlanned) return;
    conv1_ = {reinterpret_cast<std::uint16_t*>(place.data()), static_cast<std::size_t>(halves)};
    queries_ = place.first(static_cast<std::size_t>(queries));
    keys_ = place.subspan(queries_.size(), static_cast<std::size_t>(keys));
    values_ = place.subspan(queries_.size() + keys_.size(), static_cast<std::size_t>(values));

    phases_.add([this](int index, int of) { convolve_samples(index, of); });
    phases_.add([this](int index, int of) { convolve_frames(index, of); });
    phases_.add([this](int index, int of) {
        for_groups({counts_.frames, index, of}, kGroup,
                   [&](std::int64_t first, std::int64_t count) {
                       make_queries_keys_values(0, first, count,
                                                scratch_[static_cast<std::size_t>(index)]);
                   });
    });
    for (std::size_t block = 0; block < weights.encoder.size(); ++block) {
        phases_.add([this](int index, int of) { attend_in_place(index, of); });
        phases_.add([this, block](int index, int of) { finish_block(block, index, of); });
    }
}

ggml_cgraph* PackedEncoder::prepare(std::span<const float> samples, RowCaches::Row& row) {
    samples_ = samples;
    row_ = &row;
    counts_ = frame_counts(static_cast<std::int64_t>(samples.size()));
    key_stride_ = padded_positions(counts_.frames);
    return phases_.graph();
}

float* PackedEncoder::frame(std::int64_t index) const noexcept {
    return frames_.data() + index * config_.width;
}

void PackedEncoder::multiply_all(const PackedMatrix& matrix, std::int64_t count,
                                 const Scratch& scratch, Write write, Products out) const noexcept {
    multiply(tiles_, matrix, {0, matrix.panels()}, scratch.columns, count, write, out);
}

void PackedEncoder::convolve_samples(int index, int threads) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(index)];
    const PackedMatrix& matrix = weights_.conv1;
    const std::int64_t width = config_.width;
    scratch.columns.stride = matrix.columns();
    for_groups({counts_.conv1, index, threads}, kGroup,
               [&](std::int64_t first, std::int64_t count) {
                   for (std::int64_t i = 0; i < count; ++i) {
                       const auto start = static_cast<std::size_t>((first + i) * kConv1Stride);
                       // A clip too short for a frame is followed by silence.
                       const std::size_t end = std::min(start + kConv1Kernel, samples_.size());
                       float* column = scratch.frames.data();
                       std::fill_n(column, kConv1Taps, 0.0F);
                       if (start < end) std::copy_n(samples_.data() + start, end - start, column);
                       quantize_column(matrix, column, scratch.columns, i);
                   }
                   float* out = scratch.hidden.data();
                   multiply_all(matrix, count, scratch, Write::kReplace, {out, width});
                   tanh_in_place({out, static_cast<std::size_t>(count * width)});
                   for (std::int64_t i = 0; i < count; ++i) {
                       std::uint16_t* kept = conv1_.data() + (first + i) * width;
                       Float8 sum = broadcast(0.0F);
                       Float8 squares = broadcast(0.0F);
                       for (std::int64_t k = 0; k < width; k += kLanes) {
                           const Float8 x = load(out + i * width + k);
                           sum = sum + x;
                           squares = fused(x, x, squares);
                           store(kept + k, x);
                       }
                       sums_[static_cast<std::size_t>(first + i)] = sum_of(sum);
                       sums_[static_cast<std::size_t>(counts_.conv1 + first + i)] = sum_of(squares);
                   }
               });
}

PackedEncoder::Moments PackedEncoder::moments() const noexcept {
    // One group: mean and variance of all channels and frames of the clip, in the order of frames.
    double sum = 0;
    double squares = 0;
    for (std::int64_t i = 0; i < counts_.conv1; ++i) {
        sum += sums_[static_cast<std::size_t>(i)];
        squares += sums_[static_cast<std::size_t>(counts_.conv1 + i)];
    }
    const auto values = static_cast<double>(counts_.conv1 * config_.width);
    const double mean = sum / values;
    const double variance = std::max(squares / values - mean * mean, 0.0);
    return {
        .mean = static_cast<float>(mean),
        .factor = static_cast<float>(1 / std::sqrt(variance + static_cast<double>(kNormEpsilon)))};
}

void PackedEncoder::normalize(const Moments& moments, std::int64_t first, std::int64_t count,
                              float* out) const noexcept {
    const std::int64_t width = config_.width;
    const Float8 center = broadcast(moments.mean);
    const Float8 factor = broadcast(moments.factor);
    const std::uint16_t* from = conv1_.data() + first * width;
    for (std::int64_t i = 0; i < count * width; i += width) {
        for (std::int64_t k = 0; k < width; k += kLanes) {
            const Float8 x = (load(from + i + k) - center) * factor;
            store(out + i + k, fused(x, load(weights_.group_norm.data() + k),
                                     load(weights_.group_norm_bias.data() + k)));
        }
    }
}

void PackedEncoder::convolve_frames(int index, int threads) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(index)];
    const std::int64_t width = config_.width;
    const Moments of_clip = moments();
    const auto convolve = [&](const PackedMatrix& matrix, const float* from, std::int64_t step,
                              std::int64_t count, std::span<const float> bias, float* out) {
        scratch.columns.stride = matrix.columns();
        for (std::int64_t i = 0; i < count; ++i) {
            quantize_column(matrix, from + i * step, scratch.columns, i);
        }
        multiply_all(matrix, count, scratch, Write::kReplace, {out, matrix.rows()});
        for (std::int64_t i = 0; i < count; ++i) {
            add_gelu_in_place({out + i * matrix.rows(), bias.size()}, bias);
        }
    };
    for_groups({counts_.frames, index, threads}, kConvolutionGroup,
               [&](std::int64_t first, std::int64_t count) {
                   const std::int64_t between = conv2_frames(count);
                   float* normal = scratch.frames.data();
                   float* hidden = scratch.hidden.data();
                   normalize(of_clip, first * kConv3Stride * kConv2Stride, conv1_frames(between),
                             normal);
                   convolve(weights_.conv2, normal, kConv2Stride * width, between,
                            weights_.conv2_bias, hidden);
                   convolve(weights_.conv3, hidden, kConv3Stride * 2 * width, count,
                            weights_.conv3_bias, frame(first));
               });
}

void PackedEncoder::attend_in_place(int index, int threads) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(index)];
    const std::int64_t head_width = config_.head_width();
    const Share share(counts_.frames, index, threads);
    for (std::int64_t head = 0; head < config_.heads; ++head) {
        const HeadCache<float> cache{.keys = keys_.data() + head * head_width * key_stride_,
                                     .key_stride = key_stride_,
                                     .values = values_.data() + head * value_stride_,
                                     .width = head_width,
                                     .positions = counts_.frames};
        for_groups(share, kQueriesAtOnce, [&](std::int64_t first, std::int64_t count) {
            float* queries = queries_.data() + first * config_.width + head * head_width;
            attend(cache, queries, config_.width, count, scratch.scores.data(), queries);
        });
    }
}

void PackedEncoder::finish_block(std::size_t block, int index, int threads) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(index)];
    for_groups({counts_.frames, index, threads}, kGroup,
               [&](std::int64_t first, std::int64_t count) {
                   project(weights_.encoder[block], first, count, scratch);
                   feed_forward(weights_.encoder[block], first, count, scratch);
                   if (block + 1 < weights_.encoder.size()) {
                       make_queries_keys_values(block + 1, first, count, scratch);
                   } else {
                       make_cross_keys_values(first, count, scratch);
                   }
               });
}

void PackedEncoder::project(const PackedEncoderBlock& block, std::int64_t first, std::int64_t count,
                            Scratch& scratch) {
    scratch.columns.stride = config_.width;
    for (std::int64_t i = 0; i < count; ++i) {
        quantize_column(block.attention_out, queries_.data() + (first + i) * config_.width,
                        scratch.columns, i);
    }
    multiply_all(block.attention_out, count, scratch, Write::kAdd, {frame(first), config_.width});
}

void PackedEncoder::feed_forward(const PackedEncoderBlock& block, std::int64_t first,
                                 std::int64_t count, Scratch& scratch) {
    quantize_norms(block.up, block.mlp_norm, first, count, scratch);
    const std::int64_t length = config_.feed_forward;
    float* hidden = scratch.hidden.data();
    multiply_all(block.up, count, scratch, Write::kReplace, {hidden, length});
    scratch.columns.stride = length;
    for (std::int64_t i = 0; i < count; ++i) {
        add_gelu_in_place({hidden + i * length, static_cast<std::size_t>(length)}, block.up_bias);
        quantize_column(block.down, hidden + i * length, scratch.columns, i);
    }
    multiply_all(block.down, count, scratch, Write::kAdd, {frame(first), config_.width});
    for (std::int64_t i = first; i < first + count; ++i) add(block.down_bias, frame(i));
}

void PackedEncoder::quantize_norms(const PackedMatrix& matrix, std::span<const float> norm,
                                   std::int64_t first, std::int64_t count,
                                   Scratch& scratch) noexcept {
    scratch.columns.stride = config_.width;
    for (std::int64_t i = 0; i < count; ++i) {
        layer_norm(frame(first + i), norm, scratch.frames.data());
        quantize_column(matrix, scratch.frames.data(), scratch.columns, i);
    }
}

void PackedEncoder::make_queries_keys_values(std::size_t block, std::int64_t first,
                                             std::int64_t count, Scratch& scratch) {
    const PackedEncoderBlock& next = weights_.encoder[block];
    const std::int64_t width = config_.width;
    const std::int64_t head_width = config_.head_width();
    quantize_norms(next.query_key_value, next.attention_norm, first, count, scratch);
    float* joint = scratch.hidden.data();
    multiply_all(next.query_key_value, count, scratch, Write::kReplace, {joint, 3 * width});
    const float scale = attention_scale(config_);
    for (std::int64_t i = 0; i < count; ++i, joint += 3 * width) {
        const std::int64_t position = first + i;
        for (std::int64_t head = 0; head < config_.heads; ++head) {
            float* query = joint + head * head_width;
            float* key = query + width;
            const float* value = key + width;
            rotary_.rotate(query, position);
            rotary_.rotate(key, position);
            float* scaled = queries_.data() + position * width + head * head_width;
            float* keys = keys_.data() + head * head_width * key_stride_ + position;
            for (std::int64_t d = 0; d < head_width; ++d) {
                scaled[d] = query[d] * scale;
                keys[d * key_stride_] = key[d];
            }
            std::copy_n(value, head_width,
                        values_.data() + head * value_stride_ + position * head_width);
        }
    }
}

void PackedEncoder::make_cross_keys_values(std::int64_t first, std::int64_t count,
                                           Scratch& scratch) {
    const std::int64_t width = config_.width;
    const std::int64_t head_width = config_.head_width();
    // The integers of a column depend on the length of the rows alone, which all blocks share.
    quantize_norms(weights_.decoder.front().cross_key_value, weights_.encoder_norm, first, count,
                   scratch);
    for (std::size_t block = 0; block < weights_.decoder.size(); ++block) {
        const float* joint = scratch.hidden.data();
        multiply_all(weights_.decoder[block].cross_key_value, count, scratch, Write::kReplace,
                     {scratch.hidden.data(), 2 * width});
        const auto at = static_cast<std::int64_t>(block);
        for (std::int64_t i = first; i < first + count; ++i, joint += 2 * width) {
            for (std::int64_t head = 0; head < config_.heads; ++head) {
                row_->cross.set_key(at, head, i, joint + head * head_width);
                row_->cross.set_value(at, head, i, joint + width + head * head_width);
            }
        }
    }
}

}  // namespace wavepool::moonshine
