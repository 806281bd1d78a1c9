#pragma once

#include <cstdint>
#include <span>

#include "kernels/packed/arena.h"
#include "models/moonshine/weights.h"

namespace wavepool::moonshine {

using namespace kernels;

/// Layer norm of `weight.size()` values, a multiple of 8.
void layer_norm(const float* x, std::span<const float> weight, float* out) noexcept;

/// x += y
void add(std::span<const float> y, float* x) noexcept;

/// value = (value + value_bias) · silu(gate + gate_bias), `length` a multiple of 8.
void gate(float* value, const float* value_bias, const float* gate, const float* gate_bias,
          std::int64_t length) noexcept;

/// Cosines and sines of the rotary embedding for the first positions.
class Rotary {
  public:
    /// Rotates whole vectors: config.rotary_dimensions is a multiple of 8.
    Rotary(Arena& arena, const Config& config, std::int64_t positions);

    /// Rotates the first dimensions of one head.
    void rotate(float* head, std::int64_t position) const noexcept;

  private:
    std::int64_t dimensions_;
    std::span<float> table_;  ///< [position][dimension]: 8 cosines, then 8 sines with their signs
};

}  // namespace wavepool::moonshine
