#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/packed/phases.h"
#include "kernels/packed/row_caches.h"
#include "models/moonshine/front_end.h"
#include "models/moonshine/network.h"
#include "models/moonshine/packed/layers.h"
#include "models/moonshine/packed/packed_weights.h"

namespace wavepool::moonshine {

/// What self or cross attention keeps of a row of up to so many positions.
[[nodiscard]] PositionCache::Sizes cache_sizes(const Config& config,
                                               std::int64_t positions) noexcept;

/// One decode step of the first rows of the cache. Threads share the rows of each matrix, which
/// each reads once for the whole batch, and the heads of all rows in the attention.
class PackedDecoder {
  public:
    PackedDecoder(Arena& arena, const PackedWeights& weights, const Tiles& tiles,
                  const Rotary& rotary, RowCaches& cache, const NetworkLimits& limits);

    /// The graph that feeds inputs[i] to row i at the position the row is at.
    [[nodiscard]] ggml_cgraph* prepare(std::span<const DecodeInput> inputs);
    /// After computing: the most likely token of a row that is not excluded.
    [[nodiscard]] std::int32_t next(std::int64_t row) const noexcept;

  private:
    struct Candidate {
        float score;
        std::int32_t token;
    };
    /// Of one thread.
    struct Scratch {
        Columns columns;
        std::span<float> normal;  ///< one row
        std::span<float> products;
        std::span<float> scores;
        std::span<Candidate> best;  ///< of each row among this thread's tokens
    };

    void add_block(std::size_t index);
    void project_norms(const PackedMatrix& matrix, std::span<const float> norm,
                       std::span<float> out, int index, int threads);
    void attend_to_self(std::size_t block, int index, int threads);
    void attend_to_frames(std::size_t block, int index, int threads);
    void add_product(const PackedMatrix& matrix, std::span<const float> from,
                     std::span<const float> bias, int index, int threads);
    void open_gates(const PackedDecoderBlock& block, int index, int threads);
    void choose_tokens(int index, int threads);

    void quantize_norms(const PackedMatrix& matrix, std::span<const float> norm, Scratch& scratch);
    /// Calls `work`(row, head) for the share of a thread.
    template <typename Work>
    void for_heads(int index, int threads, Work work);

    const PackedWeights& weights_;
    const Config& config_;
    Tiles tiles_;
    const Rotary& rotary_;
    RowCaches& cache_;
    std::span<float> rows_;    // [row][width], the residual stream
    std::span<float> joint_;   // [row][3 · width]: queries, keys, values
    std::span<float> mixed_;   // [row][width], what attention found
    std::span<float> hidden_;  // [row][feed forward]
    std::vector<Scratch> scratch_;
    Phases phases_;
    // Of the current step.
    std::span<const DecodeInput> inputs_;
    std::int64_t count_ = 0;
};

}  // namespace wavepool::moonshine
