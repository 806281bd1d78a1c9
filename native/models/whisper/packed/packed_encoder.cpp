#include "models/whisper/packed/packed_encoder.h"

#include <algorithm>

#include "kernels/float8.h"

namespace wavepool::whisper {
namespace {

constexpr std::int64_t kTicksPerFrame = 2;

/// Frames that go through a block together: their columns fit the second-level cache beside the
/// weights. A multiple of what the tile kernels take at once.
constexpr std::int64_t kGroup = 48;

constexpr float kAttentionScale = 0.125F;  // 1 / √kHeadWidth

/// Calls `work`(first, count) for the groups of a share.
template <typename Work>
void for_groups(const Share& share, std::int64_t size, Work work) {
    for (std::int64_t first = share.begin; first < share.end; first += size) {
        work(first, std::min(size, share.end - first));
    }
}

}  // namespace

PackedEncoder::PackedEncoder(Arena& arena, const PackedWeights& weights, const ByteTiles& tiles,
                             const NetworkLimits& limits)
    : weights_(weights),
      width_(weights.sizes.state),
      heads_(weights.sizes.audio_heads),
      tiles_(tiles),
      value_stride_(kAudioContext * kHeadWidth + kLanes),
      phases_(arena, 2 * weights.encoder.size() + 5) {
    constexpr std::int64_t kFrames = kAudioContext;
    constexpr std::int64_t kTicks = kTicksPerFrame * kFrames;
    const std::int64_t bins = weights.sizes.mel_bins;
    const std::int64_t ticks = LogMel::frames(limits.samples);
    const std::int64_t positions = padded_positions(kFrames);
    logarithms_ = arena.take<float>(ticks * bins);
    loudest_ = arena.take<float>(ticks);
    mel_ = arena.take<float>((kTicks + 2) * bins);
    const std::int64_t convolved = (kTicks + 1) * width_;
    const std::int64_t queries = kFrames * width_;
    const std::int64_t keys = positions * width_;
    const std::int64_t values = heads_ * value_stride_;
    const auto place = arena.take<float>(std::max(convolved, queries + keys + values));
    frames_ = arena.take<float>(kFrames * width_);
    const std::int64_t longest =
        std::max({4 * width_, kConvolutionTaps * width_, kConvolutionTaps * bins});
    for (int i = 0; i < limits.threads; ++i) {
        scratch_.push_back({.columns = take_byte_columns(arena, kGroup, longest),
                            .frame = arena.take<float>(width_),
                            .hidden = arena.take<float>(kGroup * 4 * width_),
                            .scores = arena.take<float>(kQueriesAtOnce * positions)});
    }
    if (arena.allocation() == Allocation::kPlanned) return;
    conv1_ = place.first(static_cast<std::size_t>(convolved));
    queries_ = place.first(static_cast<std::size_t>(queries));
    keys_ = place.subspan(queries_.size(), static_cast<std::size_t>(keys));
    values_ = place.subspan(queries_.size() + keys_.size(), static_cast<std::size_t>(values));

    phases_.add([this](int index, int of) { listen(index, of); });
    phases_.add([this](int index, int of) { scale(index, of); });
    phases_.add([this](int index, int of) { convolve_ticks(index, of); });
    phases_.add([this](int index, int of) { convolve_frames(index, of); });
    phases_.add([this](int index, int of) {
        for_groups({count_, index, of}, kGroup, [&](std::int64_t first, std::int64_t count) {
            make_queries_keys_values(0, first, count, scratch_[static_cast<std::size_t>(index)]);
        });
    });
    for (std::size_t block = 0; block < weights.encoder.size(); ++block) {
        phases_.add([this](int index, int of) { attend_in_place(index, of); });
        phases_.add([this, block](int index, int of) { finish_block(block, index, of); });
    }
}

ggml_cgraph* PackedEncoder::prepare(std::span<const float> clip, std::int64_t ticks,
                                    std::int64_t frames, RowCaches::Row& row) {
    clip_ = clip;
    row_ = &row;
    heard_ = LogMel::frames(static_cast<std::int64_t>(clip.size()));
    first_tick_ = ticks;
    count_ = frames;
    key_stride_ = padded_positions(frames);
    return phases_.graph();
}

float* PackedEncoder::frame(std::int64_t index) const noexcept {
    return frames_.data() + index * width_;
}

void PackedEncoder::multiply_all(const ByteMatrix& matrix, std::int64_t count,
                                 const Scratch& scratch, Write write, Products out) const noexcept {
    multiply(tiles_, matrix, {0, matrix.panels()}, scratch.columns, count, write, out);
}

void PackedEncoder::quantize(const float* from, std::int64_t step, std::int64_t length,
                             std::int64_t count, Scratch& scratch) const noexcept {
    scratch.columns.stride = length;
    for (std::int64_t i = 0; i < count; ++i) {
        quantize_column(from + i * step, length, scratch.columns, i);
    }
}

void PackedEncoder::listen(int index, int threads) {
    const std::int64_t bins = weights_.log_mel.bins();
    const Share share(heard_, index, threads);
    float* logarithms = logarithms_.data() + share.begin * bins;
    weights_.log_mel.compute(clip_, share.begin, share.end - share.begin, logarithms);
    for (std::int64_t tick = share.begin; tick < share.end; ++tick, logarithms += bins) {
        loudest_[static_cast<std::size_t>(tick)] = *std::max_element(logarithms, logarithms + bins);
    }
}

void PackedEncoder::scale(int index, int threads) {
    const std::int64_t bins = weights_.log_mel.bins();
    const float loudest =
        std::max(LogMel::kSilence, *std::max_element(loudest_.data(), loudest_.data() + heard_));
    const Share share(kTicksPerFrame * count_, index, threads);
    for (std::int64_t i = share.begin; i < share.end; ++i) {
        const std::int64_t tick = first_tick_ + i;
        float* to = mel_.data() + (i + 1) * bins;
        for (std::int64_t bin = 0; bin < bins; ++bin) {
            const float logarithm = tick < heard_
                                        ? logarithms_[static_cast<std::size_t>(tick * bins + bin)]
                                        : LogMel::kSilence;
            to[bin] = LogMel::scaled(logarithm, loudest);
        }
    }
    if (index > 0) return;
    std::fill_n(mel_.data(), bins, 0.0F);
    std::fill_n(mel_.data() + (kTicksPerFrame * count_ + 1) * bins, bins, 0.0F);
    std::fill_n(conv1_.data(), width_, 0.0F);
}

void PackedEncoder::convolve_ticks(int index, int threads) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(index)];
    const std::int64_t bins = weights_.log_mel.bins();
    for_groups({kTicksPerFrame * count_, index, threads}, kGroup,
               [&](std::int64_t first, std::int64_t count) {
                   quantize(mel_.data() + first * bins, bins, kConvolutionTaps * bins, count,
                            scratch);
                   float* out = conv1_.data() + (first + 1) * width_;
                   multiply_all(weights_.conv1, count, scratch, Write::kReplace, {out, width_});
                   gelu_in_place(out, count * width_);
               });
}

void PackedEncoder::convolve_frames(int index, int threads) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(index)];
    for_groups({count_, index, threads}, kGroup, [&](std::int64_t first, std::int64_t count) {
        quantize(conv1_.data() + first * kTicksPerFrame * width_, kTicksPerFrame * width_,
                 kConvolutionTaps * width_, count, scratch);
        multiply_all(weights_.conv2, count, scratch, Write::kReplace, {frame(first), width_});
        gelu_in_place(frame(first), count * width_);
        add(weights_.audio_positions.data() + first * width_, count * width_, frame(first));
    });
}

void PackedEncoder::attend_in_place(int index, int threads) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(index)];
    const Share share(count_, index, threads);
    for (std::int64_t head = 0; head < heads_; ++head) {
        const HeadCache<float> cache{.keys = keys_.data() + head * kHeadWidth * key_stride_,
                                     .key_stride = key_stride_,
                                     .values = values_.data() + head * value_stride_,
                                     .width = kHeadWidth,
                                     .positions = count_};
        for_groups(share, kQueriesAtOnce, [&](std::int64_t first, std::int64_t count) {
            float* queries = queries_.data() + first * width_ + head * kHeadWidth;
            attend(cache, queries, width_, count, scratch.scores.data(), queries);
        });
    }
}

void PackedEncoder::finish_block(std::size_t block, int index, int threads) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(index)];
    for_groups({count_, index, threads}, kGroup, [&](std::int64_t first, std::int64_t count) {
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
    quantize(queries_.data() + first * width_, width_, width_, count, scratch);
    multiply_all(block.attention_out, count, scratch, Write::kAdd, {frame(first), width_});
}

void PackedEncoder::feed_forward(const PackedEncoderBlock& block, std::int64_t first,
                                 std::int64_t count, Scratch& scratch) {
    quantize_norms(block.mlp_norm, first, count, scratch);
    const std::int64_t length = block.up.rows();
    float* hidden = scratch.hidden.data();
    multiply_all(block.up, count, scratch, Write::kReplace, {hidden, length});
    gelu_in_place(hidden, count * length);
    quantize(hidden, length, length, count, scratch);
    multiply_all(block.down, count, scratch, Write::kAdd, {frame(first), width_});
}

void PackedEncoder::quantize_norms(const Norm& norm, std::int64_t first, std::int64_t count,
                                   Scratch& scratch) const noexcept {
    scratch.columns.stride = width_;
    for (std::int64_t i = 0; i < count; ++i) {
        layer_norm(frame(first + i), norm, scratch.frame.data());
        quantize_column(scratch.frame.data(), width_, scratch.columns, i);
    }
}

void PackedEncoder::make_queries_keys_values(std::size_t block, std::int64_t first,
                                             std::int64_t count, Scratch& scratch) {
    const PackedEncoderBlock& next = weights_.encoder[block];
    quantize_norms(next.attention_norm, first, count, scratch);
    float* joint = scratch.hidden.data();
    multiply_all(next.query_key_value, count, scratch, Write::kReplace, {joint, 3 * width_});
    for (std::int64_t i = 0; i < count; ++i, joint += 3 * width_) {
        const std::int64_t position = first + i;
        for (std::int64_t head = 0; head < heads_; ++head) {
            const float* query = joint + head * kHeadWidth;
            const float* key = query + width_;
            const float* value = key + width_;
            float* scaled = queries_.data() + position * width_ + head * kHeadWidth;
            float* keys = keys_.data() + head * kHeadWidth * key_stride_ + position;
            for (std::int64_t d = 0; d < kHeadWidth; ++d) {
                scaled[d] = query[d] * kAttentionScale;
                keys[d * key_stride_] = key[d];
            }
            std::copy_n(value, kHeadWidth,
                        values_.data() + head * value_stride_ + position * kHeadWidth);
        }
    }
}

void PackedEncoder::make_cross_keys_values(std::int64_t first, std::int64_t count,
                                           Scratch& scratch) {
    quantize_norms(weights_.encoder_norm, first, count, scratch);
    for (std::size_t block = 0; block < weights_.decoder.size(); ++block) {
        const float* joint = scratch.hidden.data();
        multiply_all(weights_.decoder[block].cross_key_value, count, scratch, Write::kReplace,
                     {scratch.hidden.data(), 2 * width_});
        const auto at = static_cast<std::int64_t>(block);
        for (std::int64_t i = first; i < first + count; ++i, joint += 2 * width_) {
            for (std::int64_t head = 0; head < heads_; ++head) {
                row_->cross.set_key(at, head, i, joint + head * kHeadWidth);
                row_->cross.set_value(at, head, i, joint + width_ + head * kHeadWidth);
            }
        }
    }
}

}  // namespace wavepool::whisper
