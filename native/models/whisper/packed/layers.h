#pragma once

#include <cstdint>
#include <span>

#include "kernels/packed/arena.h"

namespace wavepool::whisper {

using namespace kernels;

struct Norm {
    std::span<float> weight;
    std::span<float> bias;
};

/// Layer norm of norm.weight.size() values, a multiple of 8.
void layer_norm(const float* x, const Norm& norm, float* out) noexcept;

/// GELU of `length` values, a multiple of 8.
void gelu_in_place(float* x, std::int64_t length) noexcept;

/// x += y, `length` a multiple of 8.
void add(const float* y, std::int64_t length, float* x) noexcept;

}  // namespace wavepool::whisper
