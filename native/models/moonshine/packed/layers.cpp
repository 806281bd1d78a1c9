#include "models/moonshine/packed/layers.h"

#include <cmath>

#include "kernels/exponentials.h"
#include "models/moonshine/layers.h"

namespace wavepool::moonshine {
namespace {

/// x · sigmoid(x)
Float8 silu(Float8 x) noexcept {
    return x / (broadcast(1.0F) + exponential(broadcast(0.0F) - x));
}

}  // namespace

void layer_norm(const float* x, std::span<const float> weight, float* out) noexcept {
    const auto length = static_cast<std::int64_t>(weight.size());
    Float8 sum = broadcast(0.0F);
    for (std::int64_t i = 0; i < length; i += kLanes) sum = sum + load(x + i);
    const Float8 mean = broadcast(sum_of(sum) / static_cast<float>(length));
    Float8 squares = broadcast(0.0F);
    for (std::int64_t i = 0; i < length; i += kLanes) {
        const Float8 difference = load(x + i) - mean;
        squares = fused(difference, difference, squares);
    }
    const float variance = sum_of(squares) / static_cast<float>(length);
    const Float8 factor = broadcast(1.0F / std::sqrt(variance + kNormEpsilon));
    for (std::int64_t i = 0; i < length; i += kLanes) {
        const Float8 normal = (load(x + i) - mean) * factor;
        store(out + i, normal * load(weight.data() + i));
    }
}

void add(std::span<const float> y, float* x) noexcept {
    for (std::size_t i = 0; i < y.size(); ++i) x[i] += y[i];
}

void gate(float* value, const float* value_bias, const float* gate, const float* gate_bias,
          std::int64_t length) noexcept {
    for (std::int64_t i = 0; i < length; i += kLanes) {
        const Float8 open = silu(load(gate + i) + load(gate_bias + i));
        const Float8 x = load(value + i) + load(value_bias + i);
        store(value + i, x * open);
    }
}

Rotary::Rotary(Arena& arena, const Config& config, std::int64_t positions)
    : dimensions_(config.rotary_dimensions),
      table_(arena.take<float>(positions * 2 * config.rotary_dimensions)) {
    if (arena.allocation() == Allocation::kPlanned) return;
    constexpr double kBase = 10000;
    float* to = table_.data();
    for (std::int64_t position = 0; position < positions; ++position) {
        for (std::int64_t first = 0; first < dimensions_; first += kLanes) {
            for (std::int64_t lane = 0; lane < kLanes; ++lane) {
                const auto pair = static_cast<double>((first + lane) / 2);
                const double angle = static_cast<double>(position) *
                                     std::pow(kBase, -2 * pair / static_cast<double>(dimensions_));
                to[lane] = static_cast<float>(std::cos(angle));
                to[kLanes + lane] =
                    static_cast<float>(lane % 2 == 0 ? -std::sin(angle) : std::sin(angle));
            }
            to += 2 * kLanes;
        }
    }
}

void Rotary::rotate(float* head, std::int64_t position) const noexcept {
    const float* table = table_.data() + position * 2 * dimensions_;
    for (std::int64_t first = 0; first < dimensions_; first += kLanes, table += 2 * kLanes) {
        const Float8 x = load(head + first);
        store(head + first, x * load(table) + swap_neighbors(x) * load(table + kLanes));
    }
}

}  // namespace wavepool::moonshine
