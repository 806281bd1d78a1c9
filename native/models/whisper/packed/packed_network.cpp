#include "models/whisper/packed/packed_network.h"

#include <utility>

#include "framework/compute/backend.h"
#include "models/whisper/packed/packed_decoder.h"
#include "models/whisper/packed/packed_encoder.h"

namespace wavepool::whisper {
namespace {

/// What self or cross attention keeps of a row of up to so many positions.
PositionCache::Sizes cache_sizes(const Parameters& sizes, std::int64_t positions) noexcept {
    return {.blocks = sizes.text_layers,
            .heads = sizes.text_heads,
            .head_width = kHeadWidth,
            .positions = positions};
}

/// All memory of one session and what computes in it.
struct PackedState {
    PackedState(const PackedWeights& weights, const NetworkLimits& limits, const ByteTiles& tiles,
                Allocation allocation)
        : arena(allocation),
          cache(arena, limits.rows, cache_sizes(weights.sizes, kTextContext),
                cache_sizes(weights.sizes, kAudioContext)),
          encoder(arena, weights, tiles, limits),
          decoder(arena, weights, tiles, cache, limits) {}

    Arena arena;
    RowCaches cache;
    PackedEncoder encoder;
    PackedDecoder decoder;
};

class PackedNetwork final : public Network {
  public:
    PackedNetwork(std::shared_ptr<const PackedWeights> weights, const NetworkLimits& limits,
                  const ByteTiles& tiles)
        : weights_(std::move(weights)),
          backend_(limits.threads),
          state_(*weights_, limits, tiles, Allocation::kReal) {}

    void encode(std::span<const float> clip, std::int64_t ticks, std::int64_t frames,
                std::int64_t row, const AbortCheck& abort) override {
        RowCaches::Row& target = state_.cache.row(row);
        target.frames = 0;
        target.tokens = 0;
        backend_.compute(state_.encoder.prepare(clip, ticks, frames, target), abort);
        target.frames = frames;
    }

    void decode(std::span<const DecodeInput> inputs, const AbortCheck& abort) override {
        backend_.compute(state_.decoder.prepare(inputs), abort);
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            ++state_.cache.row(static_cast<std::int64_t>(i)).tokens;
        }
    }

    [[nodiscard]] std::span<float> scores(std::int64_t row) noexcept override {
        return state_.decoder.scores(row);
    }

    void move_row(std::int64_t from, std::int64_t to) override { state_.cache.move_row(from, to); }

    [[nodiscard]] std::size_t bytes() const noexcept override { return state_.arena.bytes(); }

  private:
    std::shared_ptr<const PackedWeights> weights_;
    CpuBackend backend_;
    PackedState state_;
};

class PackedNetworkWeights final : public NetworkWeights {
  public:
    explicit PackedNetworkWeights(std::shared_ptr<const PackedWeights> weights)
        : weights_(std::move(weights)) {}

    [[nodiscard]] std::size_t bytes() const noexcept override { return weights_->bytes(); }
    [[nodiscard]] std::unique_ptr<Network> make_network(
        const NetworkLimits& limits) const override {
        return make_packed_network(weights_, limits, best_byte_tiles());
    }
    [[nodiscard]] std::size_t network_bytes(const NetworkLimits& limits) const override {
        return PackedState(*weights_, limits, {}, Allocation::kPlanned).arena.bytes();
    }

  private:
    std::shared_ptr<const PackedWeights> weights_;
};

}  // namespace

std::shared_ptr<const NetworkWeights> load_packed_network_weights(const Checkpoint& checkpoint,
                                                                  Allocation allocation) {
    auto weights = PackedWeights::load(checkpoint, allocation);
    if (!weights) return nullptr;
    return std::make_shared<PackedNetworkWeights>(std::move(weights));
}

std::unique_ptr<Network> make_packed_network(std::shared_ptr<const PackedWeights> weights,
                                             const NetworkLimits& limits, const ByteTiles& tiles) {
    return std::make_unique<PackedNetwork>(std::move(weights), limits, tiles);
}

}  // namespace wavepool::whisper
