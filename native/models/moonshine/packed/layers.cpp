#include "models/moonshine/packed/layers.h"

#include <cmath>

#include "kernels/packed/vectors.h"
#include "models/moonshine/layers.h"

namespace wavepool::moonshine {

void layer_norm(const float* x, std::span<const float> weight, float* out) noexcept {
    const auto length = static_cast<std::int64_t>(weight.size());
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
        _mm256_storeu_ps(out + i, _mm256_mul_ps(normal, load(weight.data() + i)));
    }
}

void add(std::span<const float> y, float* x) noexcept {
    for (std::size_t i = 0; i < y.size(); ++i) x[i] += y[i];
}

void gate(float* value, const float* value_bias, const float* gate, const float* gate_bias,
          std::int64_t length) noexcept {
    for (std::int64_t i = 0; i < length; i += kLanes) {
        const __m256 open = silu(_mm256_add_ps(load(gate + i), load(gate_bias + i)));
        const __m256 x = _mm256_add_ps(load(value + i), load(value_bias + i));
        _mm256_storeu_ps(value + i, _mm256_mul_ps(x, open));
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
        const __m256 x = load(head + first);
        const __m256 swapped = _mm256_permute_ps(x, 0b10'11'00'01);
        _mm256_storeu_ps(head + first, _mm256_add_ps(_mm256_mul_ps(x, load(table)),
                                                     _mm256_mul_ps(swapped, load(table + kLanes))));
    }
}

}  // namespace wavepool::moonshine
