#include "models/moonshine/packed/packed_encoder.h"

#include <algorithm>
#include <cmath>

#include "models/moonshine/layers.h"
#include "models/moonshine/packed/vectors.h"
#include "models/moonshine/vector_math.h"

namespace wavepool::moonshine {
namespace {

/// Frames that go through a block together: their columns fit the second-level cache beside the
/// weights. A multiple of what the tile kernels and the attention take at once.
constexpr std::int64_t kGroup = 48;
/// The columns of a convolution are longer.
constexpr std::int64_t kConvolutionGroup = 24;
static_assert(kGroup % kQueriesAtOnce == 0);

std::int64_t longest_column(const Config& c) {
    return std::max(
        {c.feed_forward, kConv1Taps, kConv2Kernel * c.width, 2 * kConv3Kernel * c.width});
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
      phases_(arena, weights.encoder.size() + 3) {
    const Config& c = config_;
    const FrameCounts counts = frame_counts(samples);
    const std::int64_t positions = padded_positions(counts.frames);
    value_stride_ = counts.frames * c.head_width() + kLanes;
    sums_ = arena.take<double>(2 * counts.conv1);
    // Queries, keys and values take the place of conv1's frames when these have been used.
    const std::int64_t queries = counts.frames * c.width;
    const std::int64_t keys = positions * c.width;
    const std::int64_t values = c.heads * value_stride_;
    conv1_ = arena.take<float>(std::max(counts.conv1 * c.width, queries + 2 * (keys + values)));
    conv2_ = arena.take<float>(counts.conv2 * 2 * c.width);
    frames_ = arena.take<float>(counts.frames * c.width);
    for (int i = 0; i < threads; ++i) {
        Scratch scratch;
        const std::int64_t most =
            std::max(kGroup * c.feed_forward, kConvolutionGroup * longest_column(c));
        scratch.columns = take_columns(arena, kGroup, 1);
        scratch.columns.values = arena.take<std::int16_t>(most);
        scratch.frames = arena.take<float>(
            std::max(kGroup, conv1_frames(kConvolutionGroup)) * c.width + kConv1Taps);
        scratch.hidden = arena.take<float>(kGroup * std::max(c.feed_forward, 3 * c.width));
        scratch.scores = arena.take<float>(kQueriesAtOnce * positions);
        scratch_.push_back(scratch);
    }
    if (arena.allocation() == Allocation::kPlanned) return;
    std::span<float> rest = conv1_;
    const auto part = [&rest](std::int64_t count) {
        const auto size = static_cast<std::size_t>(count);
        const std::span<float> taken = rest.first(size);
        rest = rest.subspan(size);
        return taken;
    };
    queries_ = part(queries);
    for (KeysAndValues& each : keys_and_values_) each = {part(keys), part(values)};

    phases_.add([this](int index, int of) { convolve_samples(index, of); });
    phases_.add([this](int index, int of) { normalize_and_convolve(index, of); });
    phases_.add([this](int index, int of) { finish_front_end(index, of); });
    for (std::size_t block = 0; block < weights.encoder.size(); ++block) {
        phases_.add([this, block](int index, int of) { run_block(block, index, of); });
    }
}

ggml_cgraph* PackedEncoder::prepare(std::span<const float> samples, PackedCache::Row& row) {
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
                   float* out = conv1_.data() + first * width;
                   multiply_all(matrix, count, scratch, Write::kReplace, {out, width});
                   tanh_in_place({out, static_cast<std::size_t>(count * width)});
                   for (std::int64_t i = 0; i < count; ++i) {
                       __m256 sum = zeros();
                       __m256 squares = zeros();
                       for (std::int64_t k = 0; k < width; k += kLanes) {
                           const __m256 x = load(out + i * width + k);
                           sum = _mm256_add_ps(sum, x);
                           squares = _mm256_fmadd_ps(x, x, squares);
                       }
                       sums_[static_cast<std::size_t>(first + i)] = sum_of(sum);
                       sums_[static_cast<std::size_t>(counts_.conv1 + first + i)] = sum_of(squares);
                   }
               });
}

void PackedEncoder::normalize_and_convolve(int index, int threads) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(index)];
    const PackedMatrix& matrix = weights_.conv2;
    const std::int64_t width = config_.width;
    // One group: mean and variance of all channels and frames of the clip, summed up by everyone.
    double sum = 0;
    double squares = 0;
    for (std::int64_t i = 0; i < counts_.conv1; ++i) {
        sum += sums_[static_cast<std::size_t>(i)];
        squares += sums_[static_cast<std::size_t>(counts_.conv1 + i)];
    }
    const auto values = static_cast<double>(counts_.conv1 * width);
    const double mean = sum / values;
    const double variance = std::max(squares / values - mean * mean, 0.0);
    const __m256 center = _mm256_set1_ps(static_cast<float>(mean));
    const __m256 factor = _mm256_set1_ps(
        static_cast<float>(1 / std::sqrt(variance + static_cast<double>(kNormEpsilon))));
    scratch.columns.stride = matrix.columns();
    for_groups({counts_.conv2, index, threads}, kConvolutionGroup,
               [&](std::int64_t first, std::int64_t count) {
                   const float* from = conv1_.data() + first * kConv2Stride * width;
                   for (std::int64_t i = 0; i < conv1_frames(count) * width; i += width) {
                       for (std::int64_t k = 0; k < width; k += kLanes) {
                           const __m256 x =
                               _mm256_mul_ps(_mm256_sub_ps(load(from + i + k), center), factor);
                           _mm256_storeu_ps(
                               scratch.frames.data() + i + k,
                               _mm256_fmadd_ps(x, load(weights_.group_norm.data() + k),
                                               load(weights_.group_norm_bias.data() + k)));
                       }
                   }
                   for (std::int64_t i = 0; i < count; ++i) {
                       quantize_column(matrix, scratch.frames.data() + i * kConv2Stride * width,
                                       scratch.columns, i);
                   }
                   float* out = conv2_.data() + first * 2 * width;
                   multiply_all(matrix, count, scratch, Write::kReplace, {out, 2 * width});
                   for (std::int64_t i = 0; i < count; ++i) {
                       add_gelu_in_place({out + i * 2 * width, static_cast<std::size_t>(2 * width)},
                                         weights_.conv2_bias);
                   }
               });
}

void PackedEncoder::finish_front_end(int index, int threads) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(index)];
    const PackedMatrix& matrix = weights_.conv3;
    const std::int64_t width = config_.width;
    for_groups(
        {counts_.frames, index, threads}, kConvolutionGroup,
        [&](std::int64_t first, std::int64_t count) {
            scratch.columns.stride = matrix.columns();
            for (std::int64_t i = 0; i < count; ++i) {
                quantize_column(matrix, conv2_.data() + (first + i) * kConv3Stride * 2 * width,
                                scratch.columns, i);
            }
            multiply_all(matrix, count, scratch, Write::kReplace, {frame(first), width});
            for (std::int64_t i = first; i < first + count; ++i) {
                add_gelu_in_place({frame(i), static_cast<std::size_t>(width)}, weights_.conv3_bias);
            }
            make_queries_keys_values(0, first, count, scratch);
        });
}

void PackedEncoder::run_block(std::size_t block, int index, int threads) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(index)];
    for_groups({counts_.frames, index, threads}, kGroup,
               [&](std::int64_t first, std::int64_t count) {
                   attend_group(block, first, count, scratch);
                   project(weights_.encoder[block], first, count, scratch);
                   feed_forward(weights_.encoder[block], first, count, scratch);
                   if (block + 1 < weights_.encoder.size()) {
                       make_queries_keys_values(block + 1, first, count, scratch);
                   } else {
                       make_cross_keys_values(first, count, scratch);
                   }
               });
}

void PackedEncoder::attend_group(std::size_t block, std::int64_t first, std::int64_t count,
                                 Scratch& scratch) {
    const std::int64_t head_width = config_.head_width();
    for (std::int64_t head = 0; head < config_.heads; ++head) {
        const HeadCache<float> cache{
            .keys = keys_and_values(block).keys.data() + head * head_width * key_stride_,
            .key_stride = key_stride_,
            .values = keys_and_values(block).values.data() + head * value_stride_,
            .width = head_width,
            .positions = counts_.frames};
        for (std::int64_t i = 0; i < count; i += kQueriesAtOnce) {
            const std::int64_t place = i * config_.width + head * head_width;
            attend(cache, queries_.data() + first * config_.width + place, config_.width,
                   std::min(kQueriesAtOnce, count - i), scratch.scores.data(),
                   scratch.frames.data() + place);
        }
    }
}

void PackedEncoder::project(const PackedEncoderBlock& block, std::int64_t first, std::int64_t count,
                            Scratch& scratch) {
    scratch.columns.stride = config_.width;
    for (std::int64_t i = 0; i < count; ++i) {
        quantize_column(block.attention_out, scratch.frames.data() + i * config_.width,
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
    const KeysAndValues& to = keys_and_values(block);
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
            float* keys = to.keys.data() + head * head_width * key_stride_ + position;
            for (std::int64_t d = 0; d < head_width; ++d) {
                scaled[d] = query[d] * scale;
                keys[d * key_stride_] = key[d];
            }
            std::copy_n(value, head_width,
                        to.values.data() + head * value_stride_ + position * head_width);
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
