#include "models/whisper/packed/packed_decoder.h"

#include <algorithm>

namespace wavepool::whisper {
namespace {

constexpr std::size_t kPhasesOfABlock = 8;
constexpr float kAttentionScale = 0.125F;  // 1 / √kHeadWidth

}  // namespace

PackedDecoder::PackedDecoder(Arena& arena, const PackedWeights& weights, const ByteTiles& tiles,
                             RowCaches& cache, const NetworkLimits& limits)
    : weights_(weights),
      width_(weights.sizes.state),
      heads_(weights.sizes.text_heads),
      tiles_(tiles),
      cache_(cache),
      padded_vocabulary_(weights.embedding.panels() * kPanelRows),
      rows_(arena.take<float>(limits.rows * width_)),
      joint_(arena.take<float>(limits.rows * 3 * width_)),
      mixed_(arena.take<float>(limits.rows * width_)),
      hidden_(arena.take<float>(limits.rows * 4 * width_)),
      scores_(arena.take<float>(limits.rows * padded_vocabulary_)),
      phases_(arena, kPhasesOfABlock * weights.decoder.size() + 1) {
    for (int i = 0; i < limits.threads; ++i) {
        scratch_.push_back({.columns = take_byte_columns(arena, limits.rows, 4 * width_),
                            .normal = arena.take<float>(width_),
                            .scores = arena.take<float>(padded_positions(kAudioContext))});
    }
    if (arena.allocation() == Allocation::kPlanned) return;
    scored_.reserve(static_cast<std::size_t>(limits.rows));
    place_of_.resize(static_cast<std::size_t>(limits.rows));
    for (std::size_t block = 0; block < weights.decoder.size(); ++block) add_block(block);
    phases_.add([this](int index, int threads) { score_tokens(index, threads); });
}

void PackedDecoder::add_block(std::size_t index) {
    const PackedDecoderBlock& b = weights_.decoder[index];
    phases_.add([this, &b](int i, int n) {
        project_norms(b.self_query_key_value, b.self_norm, joint_, 3 * width_, i, n);
    });
    phases_.add([this, index](int i, int n) { attend_to_self(index, i, n); });
    phases_.add([this, &b](int i, int n) { add_product(b.self_out, mixed_, i, n); });
    phases_.add([this, &b](int i, int n) {
        project_norms(b.cross_query, b.cross_norm, joint_, 3 * width_, i, n);
    });
    phases_.add([this, index](int i, int n) { attend_to_frames(index, i, n); });
    phases_.add([this, &b](int i, int n) { add_product(b.cross_out, mixed_, i, n); });
    phases_.add([this, &b](int i, int n) { feed_up(b, i, n); });
    phases_.add([this, &b](int i, int n) { add_product(b.down, hidden_, i, n); });
}

ggml_cgraph* PackedDecoder::prepare(std::span<const DecodeInput> inputs) {
    count_ = static_cast<std::int64_t>(inputs.size());
    scored_.clear();
    const auto width = static_cast<std::size_t>(width_);
    for (std::size_t row = 0; row < inputs.size(); ++row) {
        const auto at = static_cast<std::int64_t>(row);
        const std::span<float> to = rows_.subspan(row * width, width);
        weights_.embedding.read_row(inputs[row].token, to);
        add(weights_.text_positions.data() + cache_.row(at).tokens * width_, width_, to.data());
        place_of_[row] = static_cast<std::int64_t>(scored_.size());
        if (inputs[row].scored) scored_.push_back(at);
    }
    return phases_.graph();
}

std::span<float> PackedDecoder::scores(std::int64_t row) const noexcept {
    const std::int64_t place = place_of_[static_cast<std::size_t>(row)];
    return scores_.subspan(static_cast<std::size_t>(place * padded_vocabulary_),
                           static_cast<std::size_t>(weights_.sizes.vocabulary));
}

void PackedDecoder::project_norms(const ByteMatrix& matrix, const Norm& norm, std::span<float> out,
                                  std::int64_t stride, int index, int threads) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(index)];
    const Share panels(matrix.panels(), index, threads);
    scratch.columns.stride = width_;
    for (std::int64_t row = 0; row < count_; ++row) {
        layer_norm(rows_.data() + row * width_, norm, scratch.normal.data());
        quantize_column(scratch.normal.data(), width_, scratch.columns, row);
    }
    multiply(tiles_, matrix, {panels.begin, panels.end}, scratch.columns, count_, Write::kReplace,
             {out.data() + panels.begin * kPanelRows, stride});
}

template <typename Work>
void PackedDecoder::for_heads(int index, int threads, Work work) {
    const Share share(count_ * heads_, index, threads);
    for (std::int64_t i = share.begin; i < share.end; ++i) work(i / heads_, i % heads_);
}

void PackedDecoder::attend_to_self(std::size_t block, int index, int threads) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(index)];
    const auto at = static_cast<std::int64_t>(block);
    for_heads(index, threads, [&](std::int64_t row, std::int64_t head) {
        RowCaches::Row& kept = cache_.row(row);
        float* query = joint_.data() + row * 3 * width_ + head * kHeadWidth;
        const float* key = query + width_;
        for (std::int64_t d = 0; d < kHeadWidth; ++d) query[d] *= kAttentionScale;
        kept.self.set_key(at, head, kept.tokens, key);
        kept.self.set_value(at, head, kept.tokens, key + width_);
        attend(kept.self.head(at, head, kept.tokens + 1), query, scratch.scores.data(),
               mixed_.data() + row * width_ + head * kHeadWidth);
    });
}

void PackedDecoder::attend_to_frames(std::size_t block, int index, int threads) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(index)];
    const auto at = static_cast<std::int64_t>(block);
    for_heads(index, threads, [&](std::int64_t row, std::int64_t head) {
        const RowCaches::Row& kept = cache_.row(row);
        float* query = joint_.data() + row * 3 * width_ + head * kHeadWidth;
        for (std::int64_t d = 0; d < kHeadWidth; ++d) query[d] *= kAttentionScale;
        attend(kept.cross.head(at, head, kept.frames), query, scratch.scores.data(),
               mixed_.data() + row * width_ + head * kHeadWidth);
    });
}

void PackedDecoder::add_product(const ByteMatrix& matrix, std::span<const float> from, int index,
                                int threads) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(index)];
    const Share panels(matrix.panels(), index, threads);
    scratch.columns.stride = matrix.columns();
    for (std::int64_t row = 0; row < count_; ++row) {
        quantize_column(from.data() + row * matrix.columns(), matrix.columns(), scratch.columns,
                        row);
    }
    multiply(tiles_, matrix, {panels.begin, panels.end}, scratch.columns, count_, Write::kAdd,
             {rows_.data() + panels.begin * kPanelRows, width_});
}

void PackedDecoder::feed_up(const PackedDecoderBlock& block, int index, int threads) {
    const std::int64_t length = block.up.rows();
    project_norms(block.up, block.mlp_norm, hidden_, length, index, threads);
    const Share panels(block.up.panels(), index, threads);
    const std::int64_t first = panels.begin * kPanelRows;
    for (std::int64_t row = 0; row < count_; ++row) {
        gelu_in_place(hidden_.data() + row * length + first, panels.end * kPanelRows - first);
    }
}

void PackedDecoder::score_tokens(int index, int threads) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(index)];
    const ByteMatrix& matrix = weights_.embedding;
    const Share panels(matrix.panels(), index, threads);
    const auto scored = static_cast<std::int64_t>(scored_.size());
    scratch.columns.stride = width_;
    for (std::int64_t i = 0; i < scored; ++i) {
        const float* row = rows_.data() + scored_[static_cast<std::size_t>(i)] * width_;
        layer_norm(row, weights_.decoder_norm, scratch.normal.data());
        quantize_column(scratch.normal.data(), width_, scratch.columns, i);
    }
    if (scored == 0) return;
    multiply(tiles_, matrix, {panels.begin, panels.end}, scratch.columns, scored, Write::kReplace,
             {scores_.data() + panels.begin * kPanelRows, padded_vocabulary_});
}

}  // namespace wavepool::whisper
