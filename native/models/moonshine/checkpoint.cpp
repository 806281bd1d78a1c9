#include "models/moonshine/checkpoint.h"

#include <utility>

#ifdef WAVEPOOL_PACKED_KERNELS
#include "models/moonshine/packed/packed_network.h"
#endif

namespace wavepool::moonshine {
namespace {

class StockCheckpoint final : public Checkpoint {
  public:
    explicit StockCheckpoint(std::shared_ptr<const Weights> weights)
        : weights_(std::move(weights)) {}

    [[nodiscard]] const std::string& name() const noexcept override { return weights_->name; }
    [[nodiscard]] const std::vector<std::string>& pieces() const noexcept override {
        return weights_->pieces;
    }
    [[nodiscard]] std::size_t bytes() const noexcept override { return weights_->bytes(); }
    [[nodiscard]] std::unique_ptr<Network> make_network(
        const NetworkLimits& limits) const override {
        return make_stock_network(weights_, limits);
    }
    [[nodiscard]] std::size_t network_bytes(const NetworkLimits& limits) const override {
        return stock_network_bytes(*weights_, limits);
    }

  private:
    std::shared_ptr<const Weights> weights_;
};

#ifdef WAVEPOOL_PACKED_KERNELS
class PackedCheckpoint final : public Checkpoint {
  public:
    explicit PackedCheckpoint(std::shared_ptr<const PackedWeights> weights)
        : weights_(std::move(weights)) {}

    [[nodiscard]] const std::string& name() const noexcept override {
        return weights_->description.name;
    }
    [[nodiscard]] const std::vector<std::string>& pieces() const noexcept override {
        return weights_->description.pieces;
    }
    [[nodiscard]] std::size_t bytes() const noexcept override { return weights_->bytes(); }
    [[nodiscard]] std::unique_ptr<Network> make_network(
        const NetworkLimits& limits) const override {
        return make_packed_network(weights_, limits);
    }
    [[nodiscard]] std::size_t network_bytes(const NetworkLimits& limits) const override {
        return packed_network_bytes(*weights_, limits);
    }

  private:
    std::shared_ptr<const PackedWeights> weights_;
};
#endif

}  // namespace

std::shared_ptr<const Checkpoint> load_checkpoint(const TensorSource& source, Kernels kernels,
                                                  Allocation allocation) {
#ifdef WAVEPOOL_PACKED_KERNELS
    if (kernels == Kernels::kBest) {
        auto weights = PackedWeights::load(source, allocation);
        if (weights) return std::make_shared<PackedCheckpoint>(std::move(weights));
    }
#endif
    return std::make_shared<StockCheckpoint>(
        allocation == Allocation::kReal ? Weights::load(source) : Weights::plan(source));
}

}  // namespace wavepool::moonshine
