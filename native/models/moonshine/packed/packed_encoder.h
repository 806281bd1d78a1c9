#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/packed/phases.h"
#include "kernels/packed/row_caches.h"
#include "models/moonshine/front_end.h"
#include "models/moonshine/packed/layers.h"
#include "models/moonshine/packed/packed_weights.h"

namespace wavepool::moonshine {

/// The encoder from samples to the decoder's cross keys and values, one clip at a time. Threads
/// share the frames; each takes its own through a whole block in groups that fit its cache, and
/// waits for the others only where frames meet: at the group norm and around each attention.
class PackedEncoder {
  public:
    PackedEncoder(Arena& arena, const PackedWeights& weights, const Tiles& tiles,
                  const Rotary& rotary, std::int64_t samples, int threads);

    /// The graph that encodes these samples, which must outlive it, into `row`.
    [[nodiscard]] ggml_cgraph* prepare(std::span<const float> samples, RowCaches::Row& row);

  private:
    /// Of one thread.
    struct Scratch {
        Columns columns;
        std::span<float> frames;
        std::span<float> hidden;
        std::span<float> scores;
    };

    void convolve_samples(int index, int threads);
    void convolve_frames(int index, int threads);
    void attend_in_place(int index, int threads);
    void finish_block(std::size_t block, int index, int threads);

    struct Moments {
        float mean;
        float factor;  ///< 1 / standard deviation
    };
    [[nodiscard]] Moments moments() const noexcept;
    void normalize(const Moments& moments, std::int64_t first, std::int64_t count,
                   float* out) const noexcept;
    void project(const PackedEncoderBlock& block, std::int64_t first, std::int64_t count,
                 Scratch& scratch);
    void feed_forward(const PackedEncoderBlock& block, std::int64_t first, std::int64_t count,
                      Scratch& scratch);
    void make_queries_keys_values(std::size_t block, std::int64_t first, std::int64_t count,
                                  Scratch& scratch);
    void make_cross_keys_values(std::int64_t first, std::int64_t count, Scratch& scratch);

    void multiply_all(const PackedMatrix& matrix, std::int64_t count, const Scratch& scratch,
                      Write write, Products out) const noexcept;
    void quantize_norms(const PackedMatrix& matrix, std::span<const float> norm, std::int64_t first,
                        std::int64_t count, Scratch& scratch) noexcept;
    [[nodiscard]] float* frame(std::int64_t index) const noexcept;

    const PackedWeights& weights_;
    const Config& config_;
    Tiles tiles_;
    const Rotary& rotary_;
    std::int64_t value_stride_;  // of a head
    std::span<double> sums_;     // of each conv1 frame, then of their squares
    // What is in one place: first the frames of conv1, later the others.
    std::span<std::uint16_t> conv1_;  // [conv1 frame][width], f16
    std::span<float> queries_;        // [frame][width], then what attention found
    std::span<float> keys_;           // of all heads, as HeadCache has them
    std::span<float> values_;
    std::span<float> frames_;  // [frame][width], the residual stream
    std::vector<Scratch> scratch_;
    Phases phases_;
    // Of the current clip.
    std::span<const float> samples_;
    RowCaches::Row* row_ = nullptr;
    FrameCounts counts_;
    std::int64_t key_stride_ = 0;
};

}  // namespace wavepool::moonshine
