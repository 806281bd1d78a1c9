#include "models/whisper/packed/layers.h"

#include <cmath>

#include "kernels/packed/vectors.h"

namespace wavepool::whisper {
namespace {

constexpr float kNormEpsilon = 1e-5F;

}  // namespace

void layer_norm(const float* x, const Norm& norm, float* out) noexcept {
    const auto length = static_cast<std::int64_t>(norm.weight.size());
    __m256 sum = zeros();
    for (std::int64_t i = 0; i < length; i += kLanes) sum = _mm256_add_ps(sum, load(x + i));
    const __m256 mean = _mm256_set1_ps(sum_of(sum) / static_cast<float>(length));
    __m256 squares = zeros();
    for (std::int64_t i = 0; i < length; i += kLanes) {
        const __m256 difference = _mm256_sub_ps(load(x + i), mean);
        squares = _mm256_fmadd_ps(difference, difference, squares);
    }
    const float variance = sum_of(squares) / static_cast<float>(length);
    const __m256 factor = _mm256_set1_ps(1.0F / std::sqrt(variance + kNormEpsilon));
    for (std::int64_t i = 0; i < length; i += kLanes) {
        const __m256 normal = _mm256_mul_ps(_mm256_sub_ps(load(x + i), mean), factor);
        _mm256_storeu_ps(out + i, _mm256_fmadd_ps(normal, load(norm.weight.data() + i),
                                                  load(norm.bias.data() + i)));
    }
}

void gelu_in_place(float* x, std::int64_t length) noexcept {
    for (std::int64_t i = 0; i < length; i += kLanes) _mm256_storeu_ps(x + i, gelu(load(x + i)));
}

void add(const float* y, std::int64_t length, float* x) noexcept {
    for (std::int64_t i = 0; i < length; i += kLanes) {
        _mm256_storeu_ps(x + i, _mm256_add_ps(load(x + i), load(y + i)));
    }
}

}  // namespace wavepool::whisper
