#include "models/moonshine/packed/packed_decoder.h"

#include <algorithm>
#include <limits>

#include "kernels/vector_math.h"
#include "models/moonshine/layers.h"

namespace wavepool::moonshine {
namespace {

/// Panels whose products lie in the cache together, to be looked at or gated.
constexpr std::int64_t kPanelGroup = 16;
constexpr std::int64_t kGroupRows = kPanelGroup * kPanelRows;

constexpr std::size_t kPhasesOfABlock = 8;

}  // namespace

PositionCache::Sizes cache_sizes(const Config& config, std::int64_t positions) noexcept {
    return {.blocks = config.decoder_blocks,
            .heads = config.heads,
            .head_width = config.head_width(),
            .positions = positions};
}

PackedDecoder::PackedDecoder(Arena& arena, const PackedWeights& weights, const Tiles& tiles,
                             const Rotary& rotary, RowCaches& cache, const NetworkLimits& limits)
    : weights_(weights),
      config_(weights.config()),
      tiles_(tiles),
      rotary_(rotary),
      cache_(cache),
      phases_(arena, kPhasesOfABlock * weights.decoder.size() + 1) {
    const Config& c = config_;
    rows_ = arena.take<float>(limits.rows * c.width);
    joint_ = arena.take<float>(limits.rows * 3 * c.width);
    mixed_ = arena.take<float>(limits.rows * c.width);
    hidden_ = arena.take<float>(limits.rows * c.feed_forward);
    const std::int64_t positions =
        padded_positions(std::max(limits.tokens, frame_counts(limits.samples).frames));
    for (int i = 0; i < limits.threads; ++i) {
        scratch_.push_back(
            {.columns = take_columns(arena, limits.rows, std::max(c.feed_forward, c.width)),
             .normal = arena.take<float>(c.width),
             .products = arena.take<float>(limits.rows * 2 * kGroupRows),
             .scores = arena.take<float>(positions),
             .best = arena.take<Candidate>(limits.rows)});
    }
    if (arena.allocation() == Allocation::kPlanned) return;
    for (std::size_t block = 0; block < weights.decoder.size(); ++block) add_block(block);
    phases_.add([this](int index, int threads) { choose_tokens(index, threads); });
}

void PackedDecoder::add_block(std::size_t index) {
    const PackedDecoderBlock& b = weights_.decoder[index];
    phases_.add([this, &b](int i, int n) {
        project_norms(b.self_query_key_value, b.self_norm, joint_, i, n);
    });
    phases_.add([this, index](int i, int n) { attend_to_self(index, i, n); });
    phases_.add([this, &b](int i, int n) { add_product(b.self_out, mixed_, {}, i, n); });
    phases_.add(
        [this, &b](int i, int n) { project_norms(b.cross_query, b.cross_norm, joint_, i, n); });
    phases_.add([this, index](int i, int n) { attend_to_frames(index, i, n); });
    phases_.add([this, &b](int i, int n) { add_product(b.cross_out, mixed_, {}, i, n); });
    phases_.add([this, &b](int i, int n) { open_gates(b, i, n); });
    phases_.add([this, &b](int i, int n) { add_product(b.down, hidden_, b.down_bias, i, n); });
}

ggml_cgraph* PackedDecoder::prepare(std::span<const DecodeInput> inputs) {
    inputs_ = inputs;
    count_ = static_cast<std::int64_t>(inputs.size());
    const auto width = static_cast<std::size_t>(config_.width);
    for (std::size_t row = 0; row < inputs.size(); ++row) {
        weights_.embedding.read_row(inputs[row].token, rows_.subspan(row * width, width));
    }
    return phases_.graph();
}

void PackedDecoder::quantize_norms(const PackedMatrix& matrix, std::span<const float> norm,
                                   Scratch& scratch) {
    scratch.columns.stride = config_.width;
    for (std::int64_t row = 0; row < count_; ++row) {
        layer_norm(rows_.data() + row * config_.width, norm, scratch.normal.data());
        quantize_column(matrix, scratch.normal.data(), scratch.columns, row);
    }
}

void PackedDecoder::project_norms(const PackedMatrix& matrix, std::span<const float> norm,
                                  std::span<float> out, int index, int threads) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(index)];
    const Share panels(matrix.panels(), index, threads);
    quantize_norms(matrix, norm, scratch);
    multiply(tiles_, matrix, {panels.begin, panels.end}, scratch.columns, count_, Write::kReplace,
             {out.data() + panels.begin * kPanelRows, 3 * config_.width});
}

template <typename Work>
void PackedDecoder::for_heads(int index, int threads, Work work) {
    const Share share(count_ * config_.heads, index, threads);
    for (std::int64_t i = share.begin; i < share.end; ++i) {
        work(i / config_.heads, i % config_.heads);
    }
}

void PackedDecoder::attend_to_self(std::size_t block, int index, int threads) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(index)];
    const auto at = static_cast<std::int64_t>(block);
    const std::int64_t width = config_.width;
    const float scale = attention_scale(config_);
    for_heads(index, threads, [&](std::int64_t row, std::int64_t head) {
        RowCaches::Row& kept = cache_.row(row);
        float* query = joint_.data() + row * 3 * width + head * config_.head_width();
        float* key = query + width;
        rotary_.rotate(query, kept.tokens);
        rotary_.rotate(key, kept.tokens);
        for (std::int64_t d = 0; d < config_.head_width(); ++d) query[d] *= scale;
        kept.self.set_key(at, head, kept.tokens, key);
        kept.self.set_value(at, head, kept.tokens, key + width);
        attend(kept.self.head(at, head, kept.tokens + 1), query, scratch.scores.data(),
               mixed_.data() + row * width + head * config_.head_width());
    });
}

void PackedDecoder::attend_to_frames(std::size_t block, int index, int threads) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(index)];
    const auto at = static_cast<std::int64_t>(block);
    const std::int64_t width = config_.width;
    const float scale = attention_scale(config_);
    for_heads(index, threads, [&](std::int64_t row, std::int64_t head) {
        const RowCaches::Row& kept = cache_.row(row);
        float* query = joint_.data() + row * 3 * width + head * config_.head_width();
        for (std::int64_t d = 0; d < config_.head_width(); ++d) query[d] *= scale;
        attend(kept.cross.head(at, head, kept.frames), query, scratch.scores.data(),
               mixed_.data() + row * width + head * config_.head_width());
    });
}

void PackedDecoder::add_product(const PackedMatrix& matrix, std::span<const float> from,
                                std::span<const float> bias, int index, int threads) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(index)];
    const Share panels(matrix.panels(), index, threads);
    const std::int64_t first = panels.begin * kPanelRows;
    scratch.columns.stride = matrix.columns();
    for (std::int64_t row = 0; row < count_; ++row) {
        quantize_column(matrix, from.data() + row * matrix.columns(), scratch.columns, row);
    }
    multiply(tiles_, matrix, {panels.begin, panels.end}, scratch.columns, count_, Write::kAdd,
             {rows_.data() + first, config_.width});
    if (bias.empty()) return;
    const auto part =
        bias.subspan(static_cast<std::size_t>(first),
                     static_cast<std::size_t>((panels.end - panels.begin) * kPanelRows));
    for (std::int64_t row = 0; row < count_; ++row) {
        add(part, rows_.data() + row * config_.width + first);
    }
}

void PackedDecoder::open_gates(const PackedDecoderBlock& block, int index, int threads) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(index)];
    const std::int64_t length = config_.feed_forward;
    const std::int64_t panels = length / kPanelRows;  // of values; those of gates lie behind
    const Share share(panels, index, threads);
    quantize_norms(block.up, block.mlp_norm, scratch);
    float* gates = scratch.products.data();
    for (std::int64_t panel = share.begin; panel < share.end; panel += kPanelGroup) {
        const std::int64_t end = std::min(panel + kPanelGroup, share.end);
        const std::int64_t first = panel * kPanelRows;
        multiply(tiles_, block.up, {panel, end}, scratch.columns, count_, Write::kReplace,
                 {hidden_.data() + first, length});
        multiply(tiles_, block.up, {panels + panel, panels + end}, scratch.columns, count_,
                 Write::kReplace, {gates, kGroupRows});
        for (std::int64_t row = 0; row < count_; ++row) {
            gate(hidden_.data() + row * length + first, block.up_bias.data() + first,
                 gates + row * kGroupRows, block.up_bias.data() + length + first,
                 (end - panel) * kPanelRows);
        }
    }
}

void PackedDecoder::choose_tokens(int index, int threads) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(index)];
    const PackedMatrix& matrix = weights_.embedding;
    const Share share(matrix.panels(), index, threads);
    constexpr Candidate kNone{-std::numeric_limits<float>::infinity(), 0};
    std::ranges::fill(scratch.best, kNone);
    quantize_norms(matrix, weights_.decoder_norm, scratch);
    for (std::int64_t panel = share.begin; panel < share.end; panel += kPanelGroup) {
        const std::int64_t end = std::min(panel + kPanelGroup, share.end);
        const std::int64_t first = panel * kPanelRows;
        const std::int64_t tokens = std::min(end * kPanelRows, matrix.rows()) - first;
        multiply(tiles_, matrix, {panel, end}, scratch.columns, count_, Write::kReplace,
                 {scratch.products.data(), kGroupRows});
        for (std::int64_t row = 0; row < count_; ++row) {
            const auto at = static_cast<std::size_t>(row);
            float* scores = scratch.products.data() + row * kGroupRows;
            const std::int64_t excluded = inputs_[at].excluded - first;
            if (excluded >= 0 && excluded < tokens) scores[excluded] = kNone.score;
            const std::int32_t best = argmax({scores, static_cast<std::size_t>(tokens)});
            if (scores[best] > scratch.best[at].score) {
                scratch.best[at] = {scores[best], static_cast<std::int32_t>(first) + best};
            }
        }
    }
}

std::int32_t PackedDecoder::next(std::int64_t row) const noexcept {
    Candidate best = scratch_.front().best[static_cast<std::size_t>(row)];
    for (const Scratch& scratch : scratch_) {
        const Candidate& other = scratch.best[static_cast<std::size_t>(row)];
        if (other.score > best.score) best = other;
    }
    return best.token;
}

}  // namespace wavepool::moonshine
