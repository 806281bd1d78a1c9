#include <algorithm>
#include <utility>

#include "models/moonshine/cache.h"
#include "models/moonshine/decoder_graph.h"
#include "models/moonshine/encoder_graph.h"
#include "models/moonshine/network.h"

namespace wavepool::moonshine {
namespace {

Cache make_cache(const Weights& weights, const NetworkLimits& limits, Allocation allocation) {
    return {weights.config, limits.rows, limits.tokens, frame_counts(limits.samples).frames,
            allocation};
}

std::size_t bytes_of(const Cache& cache, const GraphMemory& encoder, const GraphMemory& decoder) {
    return cache.bytes() + encoder.bytes() + decoder.bytes() +
           std::max(encoder.work_bytes(), decoder.work_bytes());
}

class StockNetwork final : public Network {
  public:
    StockNetwork(std::shared_ptr<const Weights> weights, const NetworkLimits& limits)
        : weights_(std::move(weights)),
          backend_(limits.threads),
          cache_(make_cache(*weights_, limits, Allocation::kReal)),
          encoder_(*weights_, limits.samples, cache_, limits.threads),
          decoder_(*weights_, cache_, limits.threads) {}

    void encode(std::span<const float> samples, std::int64_t row,
                const AbortCheck& abort) override {
        cache_.row(row) = {};
        backend_.compute(encoder_.prepare(samples, row), abort);
        cache_.row(row).frames = frame_counts(static_cast<std::int64_t>(samples.size())).frames;
    }

    void decode(std::span<const DecodeInput> inputs, std::span<std::int32_t> next,
                const AbortCheck& abort) override {
        backend_.compute(decoder_.prepare(inputs), abort);
        for (std::size_t row = 0; row < inputs.size(); ++row) {
            next[row] = decoder_.next()[row];
            ++cache_.row(static_cast<std::int64_t>(row)).tokens;
        }
    }

    void move_row(std::int64_t from, std::int64_t to) override { cache_.move_row(from, to); }

    [[nodiscard]] std::size_t bytes() const noexcept override {
        return bytes_of(cache_, encoder_.memory(), decoder_.memory());
    }

  private:
    std::shared_ptr<const Weights> weights_;
    CpuBackend backend_;
    Cache cache_;
    EncoderGraph encoder_;
    DecoderGraph decoder_;
};

}  // namespace

std::unique_ptr<Network> make_stock_network(std::shared_ptr<const Weights> weights,
                                            const NetworkLimits& limits) {
    return std::make_unique<StockNetwork>(std::move(weights), limits);
}

std::size_t stock_network_bytes(const Weights& weights, const NetworkLimits& limits) {
    Cache cache = make_cache(weights, limits, Allocation::kPlanned);
    const EncoderGraph encoder(weights, limits.samples, cache, limits.threads,
                               Allocation::kPlanned);
    const DecoderGraph decoder(weights, cache, limits.threads, Allocation::kPlanned);
    return bytes_of(cache, encoder.memory(), decoder.memory());
}

}  // namespace wavepool::moonshine
