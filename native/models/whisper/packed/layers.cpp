#include "models/whisper/packed/layers.h"

#include <cmath>

#include "kernels/exponentials.h"

namespace wavepool::whisper {
namespace {

constexpr float kNormEpsilon = 1e-5F;

}  // namespace

void layer_norm(const float* x, const Norm& norm, float* out) noexcept {
    const auto length = static_cast<std::int64_t>(norm.weight.size());
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
        store(out + i, fused(normal, load(norm.weight.data() + i), load(norm.bias.data() + i)));
    }
}

void gelu_in_place(float* x, std::int64_t length) noexcept {
    for (std::int64_t i = 0; i < length; i += kLanes) store(x + i, gelu(load(x + i)));
}

void add(const float* y, std::int64_t length, float* x) noexcept {
    for (std::int64_t i = 0; i < length; i += kLanes) {
        store(x + i, load(x + i) + load(y + i));
    }
}

}  // namespace wavepool::whisper
