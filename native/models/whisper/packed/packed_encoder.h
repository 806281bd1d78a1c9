#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/packed/phases.h"
#include "kernels/packed/row_caches.h"
#include "models/whisper/checkpoint/network.h"
#include "models/whisper/packed/packed_weights.h"

namespace wavepool::whisper {

/// The encoder from samples to the decoder's cross keys and values, one window at a time. Threads
/// share the frames; each takes its own through a whole block in groups that fit its cache, and
/// waits for the others only where frames meet: at the loudest one, at the convolutions and around
/// each attention.
class PackedEncoder {
  public:
    PackedEncoder(Arena& arena, const PackedWeights& weights, const ByteTiles& tiles,
                  const NetworkLimits& limits);

    /// The graph that encodes a window of this clip, which must outlive it, into `row`; see
    /// Network::encode().
    [[nodiscard]] ggml_cgraph* prepare(std::span<const float> clip, std::int64_t ticks,
                                       std::int64_t frames, RowCaches::Row& row);

  private:
    /// Of one thread.
    struct Scratch {
        ByteColumns columns;
        std::span<float> frame;  ///< one
        std::span<float> hidden;
        std::span<float> scores;
    };

    void listen(int index, int threads);
    void scale(int index, int threads);
    void convolve_ticks(int index, int threads);
    void convolve_frames(int index, int threads);
    void attend_in_place(int index, int threads);
    void finish_block(std::size_t block, int index, int threads);

    void project(const PackedEncoderBlock& block, std::int64_t first, std::int64_t count,
                 Scratch& scratch);
    void feed_forward(const PackedEncoderBlock& block, std::int64_t first, std::int64_t count,
                      Scratch& scratch);
    void make_queries_keys_values(std::size_t block, std::int64_t first, std::int64_t count,
                                  Scratch& scratch);
    void make_cross_keys_values(std::int64_t first, std::int64_t count, Scratch& scratch);

    void multiply_all(const ByteMatrix& matrix, std::int64_t count, const Scratch& scratch,
                      Write write, Products out) const noexcept;
    void quantize(const float* from, std::int64_t step, std::int64_t length, std::int64_t count,
                  Scratch& scratch) const noexcept;
    void quantize_norms(const Norm& norm, std::int64_t first, std::int64_t count,
                        Scratch& scratch) const noexcept;
    [[nodiscard]] float* frame(std::int64_t index) const noexcept;

    const PackedWeights& weights_;
    std::int64_t width_;
    std::int64_t heads_;
    ByteTiles tiles_;
    std::int64_t value_stride_;    // of a head
    std::span<float> logarithms_;  // [tick of the clip][mel bin]
    std::span<float> loudest_;     // of each tick of the clip
    std::span<float> mel_;         // [tick of the window][mel bin], zeros before and after
    // What is in one place: first the ticks of conv1, later the others.
    std::span<float> conv1_;    // [tick of the window][width], zeros before
    std::span<float> queries_;  // [frame][width], then what attention found
    std::span<float> keys_;     // of all heads, as HeadCache has them
    std::span<float> values_;
    std::span<float> frames_;  // [frame][width], the residual stream
    std::vector<Scratch> scratch_;
    Phases phases_;
    // Of the current window.
    std::span<const float> clip_;
    RowCaches::Row* row_ = nullptr;
    std::int64_t heard_ = 0;  // ticks of the clip that are not silence
    std::int64_t first_tick_ = 0;
    std::int64_t count_ = 0;  // frames
    std::int64_t key_stride_ = 0;
};

}  // namespace wavepool::whisper
