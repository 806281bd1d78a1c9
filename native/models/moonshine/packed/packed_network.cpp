#include "models/moonshine/packed/packed_network.h"

#include <algorithm>
#include <utility>

#include "models/moonshine/packed/packed_decoder.h"
#include "models/moonshine/packed/packed_encoder.h"

namespace wavepool::moonshine {
namespace {

/// All memory of one session and what computes in it.
struct PackedState {
    PackedState(const PackedWeights& weights, const NetworkLimits& limits, const Tiles& tiles,
                Allocation allocation)
        : arena(allocation),
          rotary(arena, weights.config(),
                 std::max(frame_counts(limits.samples).frames, limits.tokens)),
          cache(arena, limits.rows, cache_sizes(weights.config(), limits.tokens),
                cache_sizes(weights.config(), frame_counts(limits.samples).frames)),
          encoder(arena, weights, tiles, rotary, limits.samples, limits.threads),
          decoder(arena, weights, tiles, rotary, cache, limits) {}

    Arena arena;
    Rotary rotary;
    RowCaches cache;
    PackedEncoder encoder;
    PackedDecoder decoder;
};

class PackedNetwork final : public Network {
  public:
    PackedNetwork(std::shared_ptr<const PackedWeights> weights, const NetworkLimits& limits,
                  const Tiles& tiles)
        : weights_(std::move(weights)),
          backend_(limits.threads),
          state_(*weights_, limits, tiles, Allocation::kReal) {}

    void encode(std::span<const float> samples, std::int64_t row,
                const AbortCheck& abort) override {
        RowCaches::Row& target = state_.cache.row(row);
        target.frames = 0;
        target.tokens = 0;
        backend_.compute(state_.encoder.prepare(samples, target), abort);
        target.frames = frame_counts(static_cast<std::int64_t>(samples.size())).frames;
    }

    void decode(std::span<const DecodeInput> inputs, std::span<std::int32_t> next,
                const AbortCheck& abort) override {
        backend_.compute(state_.decoder.prepare(inputs), abort);
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            const auto row = static_cast<std::int64_t>(i);
            next[i] = state_.decoder.next(row);
            ++state_.cache.row(row).tokens;
        }
    }

    void move_row(std::int64_t from, std::int64_t to) override { state_.cache.move_row(from, to); }

    [[nodiscard]] std::size_t bytes() const noexcept override { return state_.arena.bytes(); }

  private:
    std::shared_ptr<const PackedWeights> weights_;
    CpuBackend backend_;
    PackedState state_;
};

}  // namespace

std::unique_ptr<Network> make_packed_network(std::shared_ptr<const PackedWeights> weights,
                                             const NetworkLimits& limits, const Tiles& tiles) {
    return std::make_unique<PackedNetwork>(std::move(weights), limits, tiles);
}

std::size_t packed_network_bytes(const PackedWeights& weights, const NetworkLimits& limits) {
    return PackedState(weights, limits, {}, Allocation::kPlanned).arena.bytes();
}

}  // namespace wavepool::moonshine
