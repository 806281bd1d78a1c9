#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/packed/phases.h"
#include "kernels/packed/row_caches.h"
#include "models/whisper/checkpoint/network.h"
#include "models/whisper/packed/packed_weights.h"

namespace wavepool::whisper {

/// One decode step of the first rows of the cache. Threads share the rows of each matrix, which
/// each reads once for the whole batch, and the heads of all rows in the attention.
class PackedDecoder {
  public:
    PackedDecoder(Arena& arena, const PackedWeights& weights, const ByteTiles& tiles,
                  RowCaches& cache, const NetworkLimits& limits);

    /// The graph that feeds inputs[i] to row i at the position the row is at.
    [[nodiscard]] ggml_cgraph* prepare(std::span<const DecodeInput> inputs);
    /// After computing: of every token, for a row that was to be scored.
    [[nodiscard]] std::span<float> scores(std::int64_t row) const noexcept;

  private:
    /// Of one thread.
    struct Scratch {
        ByteColumns columns;
        std::span<float> normal;  ///< one row
        std::span<float> scores;  ///< of positions
    };

    void add_block(std::size_t index);
    void project_norms(const ByteMatrix& matrix, const Norm& norm, std::span<float> out,
                       std::int64_t stride, int index, int threads);
    void attend_to_self(std::size_t block, int index, int threads);
    void attend_to_frames(std::size_t block, int index, int threads);
    void add_product(const ByteMatrix& matrix, std::span<const float> from, int index, int threads);
    void feed_up(const PackedDecoderBlock& block, int index, int threads);
    void score_tokens(int index, int threads);

    /// Calls `work`(row, head) for the share of a thread.
    template <typename Work>
    void for_heads(int index, int threads, Work work);

    const PackedWeights& weights_;
    std::int64_t width_;
    std::int64_t heads_;
    ByteTiles tiles_;
    RowCaches& cache_;
    std::int64_t padded_vocabulary_;
    std::span<float> rows_;    // [row][width], the residual stream
    std::span<float> joint_;   // [row][3 · width]: queries, keys, values
    std::span<float> mixed_;   // [row][width], what attention found
    std::span<float> hidden_;  // [row][4 · width]
    std::span<float> scores_;  // [scored row][padded vocabulary]
    std::vector<Scratch> scratch_;
    Phases phases_;
    // Of the current step.
    std::int64_t count_ = 0;
    std::vector<std::int64_t> scored_;    // rows that are
    std::vector<std::int64_t> place_of_;  // of a row's scores
};

}  // namespace wavepool::whisper
