#include "kernels/packed/attention.h"

#include <algorithm>
#include <array>
#include <limits>

#include "kernels/exponentials.h"

namespace wavepool::kernels {
namespace {

/// Scores of kQueries queries, [width][kQueries] side by side, against 8 · kVectors positions.
template <int kQueries, int kVectors, typename T>
inline void score_block(const T* keys, std::int64_t key_stride, std::int64_t width,
                        const float* queries, float* scores, std::int64_t score_stride) noexcept {
    Float8 sum[kQueries][kVectors];
#pragma GCC unroll 6
    for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sum[q][v] = broadcast(0.0F);
    }
    for (std::int64_t d = 0; d < width; ++d) {
        Float8 key[kVectors];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) key[v] = load(keys + d * key_stride + v * kLanes);
#pragma GCC unroll 6
        for (int q = 0; q < kQueries; ++q) {
            const Float8 query = broadcast(queries[d * kQueries + q]);
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) sum[q][v] = fused(query, key[v], sum[q][v]);
        }
    }
#pragma GCC unroll 6
    for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
            store(scores + q * score_stride + v * kLanes, sum[q][v]);
        }
    }
}

/// Turns the scores of `positions` positions into weights that sum up to the result; zeros behind.
float soften(float* scores, std::int64_t positions) noexcept {
    const std::int64_t padded = padded_positions(positions);
    std::fill(scores + positions, scores + padded, -std::numeric_limits<float>::infinity());
    Float8 most = load(scores);
    for (std::int64_t t = kLanes; t < padded; t += kLanes) {
        most = larger(most, load(scores + t));
    }
    most = broadcast(largest_of(most));
    for (std::int64_t t = 0; t < padded; t += kLanes) {
        store(scores + t, exponential(load(scores + t) - most));
    }
    std::fill(scores + positions, scores + padded, 0.0F);
    Float8 sum = broadcast(0.0F);
    for (std::int64_t t = 0; t < padded; t += kLanes) sum = sum + load(scores + t);
    return sum_of(sum);
}

/// Weighted sums of values for kQueries queries, kVectors · 8 >= width. Even and odd positions are
/// summed apart for a lone query, which would wait for its sums otherwise.
template <int kQueries, int kVectors, typename T>
void mix(const HeadCache<T>& head, const float* weights, std::int64_t weight_stride,
         const float* totals, float* out, std::int64_t out_stride) noexcept {
    constexpr int kChains = kQueries == 1 ? 2 : 1;
    constexpr int kSums = kQueries * kChains;
    Float8 sum[kSums][kVectors];
#pragma GCC unroll 2
    for (int s = 0; s < kSums; ++s) {
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) sum[s][v] = broadcast(0.0F);
    }
    const auto add = [&](std::int64_t t, int chain) __attribute__((always_inline)) {
        const T* value = head.values + t * head.width;
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
            const Float8 x = load(value + v * kLanes);
#pragma GCC unroll 2
            for (int q = 0; q < kQueries; ++q) {
                const Float8 weight = broadcast(weights[q * weight_stride + t]);
                Float8& target = sum[q * kChains + chain][v];
                target = fused(weight, x, target);
            }
        }
    };
    std::int64_t t = 0;
    for (; t + kChains <= head.positions; t += kChains) {
        add(t, 0);
        if constexpr (kChains == 2) add(t + 1, 1);
    }
    for (; t < head.positions; ++t) add(t, 0);
    for (int q = 0; q < kQueries; ++q) {
        alignas(32) std::array<float, kMostHeadWidth> result;
        const Float8 factor = broadcast(1.0F / totals[q]);
        for (int v = 0; v < kVectors; ++v) {
            Float8 x = sum[q * kChains][v];
            if constexpr (kChains == 2) x = x + sum[q * kChains + 1][v];
            store(result.data() + v * kLanes, x * factor);
        }
        std::copy_n(result.data(), head.width, out + q * out_stride);
    }
}

template <int kQueries, typename T>
void mix(const HeadCache<T>& head, const float* weights, std::int64_t weight_stride,
         const float* totals, float* out, std::int64_t out_stride) noexcept {
    const auto with = [&]<int kVectors>() {
        mix<kQueries, kVectors>(head, weights, weight_stride, totals, out, out_stride);
    };
    switch ((head.width + kLanes - 1) / kLanes) {
        case 1:
            return with.template operator()<1>();
        case 2:
            return with.template operator()<2>();
        case 3:
            return with.template operator()<3>();
        case 4:
            return with.template operator()<4>();
        case 5:
            return with.template operator()<5>();
        case 6:
            return with.template operator()<6>();
        case 7:
            return with.template operator()<7>();
        default:
            return with.template operator()<8>();
    }
}

}  // namespace

void attend(const HeadCache<std::uint16_t>& head, const float* query, float* scores,
            float* out) noexcept {
    const std::int64_t padded = padded_positions(head.positions);
    std::int64_t t = 0;
    for (; t + 2 * kKeyBlock <= padded; t += 2 * kKeyBlock) {
        score_block<1, 4>(head.keys + t, head.key_stride, head.width, query, scores + t, 0);
    }
    if (t < padded) {
        score_block<1, 2>(head.keys + t, head.key_stride, head.width, query, scores + t, 0);
    }
    const float total = soften(scores, head.positions);
    mix<1>(head, scores, 0, &total, out, 0);
}

void attend(const HeadCache<float>& head, const float* queries, std::int64_t stride,
            std::int64_t count, float* scores, float* out) noexcept {
    std::array<float, kMostHeadWidth * kQueriesAtOnce> beside;
    for (std::int64_t q = 0; q < kQueriesAtOnce; ++q) {
        const float* query = queries + std::min(q, count - 1) * stride;
        for (std::int64_t d = 0; d < head.width; ++d) {
            beside[static_cast<std::size_t>(d * kQueriesAtOnce + q)] = query[d];
        }
    }
    const std::int64_t padded = padded_positions(head.positions);
    for (std::int64_t t = 0; t < padded; t += kKeyBlock) {
        score_block<kQueriesAtOnce, 2>(head.keys + t, head.key_stride, head.width, beside.data(),
                                       scores + t, padded);
    }
    std::array<float, kQueriesAtOnce> totals;
    for (std::int64_t q = 0; q < kQueriesAtOnce; ++q) {
        const bool real = q < count;
        totals[static_cast<std::size_t>(q)] =
            real ? soften(scores + q * padded, head.positions) : 1.0F;
    }
    // In twos; a lone last query takes an unused one along.
    std::array<float, 2 * kMostHeadWidth> pair;
    for (std::int64_t q = 0; q < count; q += 2) {
        mix<2>(head, scores + q * padded, padded, totals.data() + q, pair.data(), kMostHeadWidth);
        for (std::int64_t i = q; i < std::min(q + 2, count); ++i) {
            std::copy_n(pair.data() + (i - q) * kMostHeadWidth, head.width, out + i * stride);
        }
    }
}

}  // namespace wavepool::kernels
