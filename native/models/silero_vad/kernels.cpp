#include "models/silero_vad/kernels.h"

#include <algorithm>

#include "models/silero_vad/float8.h"

namespace wavepool::silero_vad {
namespace {

/// `TileCount` tiles × `ColumnCount` columns, held in registers from the first input to the last:
/// at most 12 accumulators fit, and 8 are needed to hide the latency of a multiply-add.
template <std::size_t TileCount, std::size_t ColumnCount>
void multiply_block(const PackedMatrix& matrix, std::size_t first_tile, const Product& product,
                    ConstColumns in, Columns out) noexcept {
    Float8 sums[TileCount][ColumnCount][2];
    for (std::size_t t = 0; t < TileCount; ++t) {
        for (std::size_t c = 0; c < ColumnCount; ++c) {
            const float* start = product.accumulate
                                     ? out.data + c * out.stride + (first_tile + t) * kTileOutputs
                                     : matrix.bias()[first_tile + t].values;
            sums[t][c][0] = load(start);
            sums[t][c][1] = load(start + 8);
        }
    }
    const Line* lines[TileCount];
    for (std::size_t t = 0; t < TileCount; ++t)
        lines[t] = matrix.tile(first_tile + t) + product.first_input;

    for (std::size_t i = 0; i < product.inputs; ++i) {
        for (std::size_t t = 0; t < TileCount; ++t) {
            const Float8 low = load(lines[t][i].values);
            const Float8 high = load(lines[t][i].values + 8);
            for (std::size_t c = 0; c < ColumnCount; ++c) {
                const Float8 value = broadcast(in.data[c * in.stride + i]);
                sums[t][c][0] = fused(low, value, sums[t][c][0]);
                sums[t][c][1] = fused(high, value, sums[t][c][1]);
            }
        }
    }

    const Float8 zero = broadcast(0.0F);
    for (std::size_t t = 0; t < TileCount; ++t) {
        for (std::size_t c = 0; c < ColumnCount; ++c) {
            float* to = out.data + c * out.stride + (first_tile + t) * kTileOutputs;
            for (std::size_t half = 0; half < 2; ++half) {
                Float8 value = sums[t][c][half];
                if (product.rectify) value = larger(value, zero);
                store(to + 8 * half, value);
            }
        }
    }
}

/// All tiles for `ColumnCount` columns; with few columns, several tiles at a time keep enough
/// multiply-adds in flight.
template <std::size_t TileCount, std::size_t ColumnCount>
void multiply_columns(const PackedMatrix& matrix, const Product& product, ConstColumns in,
                      Columns out) noexcept {
    std::size_t tile = 0;
    for (; tile + TileCount <= matrix.tiles(); tile += TileCount)
        multiply_block<TileCount, ColumnCount>(matrix, tile, product, in, out);
    for (; tile < matrix.tiles(); ++tile)
        multiply_block<1, ColumnCount>(matrix, tile, product, in, out);
}

void multiply_few_columns(const PackedMatrix& matrix, const Product& product, ConstColumns in,
                          Columns out, std::size_t count) noexcept {
    switch (count) {
        case 1:
            return multiply_columns<4, 1>(matrix, product, in, out);
        case 2:
            return multiply_columns<2, 2>(matrix, product, in, out);
        case 3:
            return multiply_columns<2, 3>(matrix, product, in, out);
        case 4:
            return multiply_columns<1, 4>(matrix, product, in, out);
        case 5:
            return multiply_columns<1, 5>(matrix, product, in, out);
        default:
            return;
    }
}

}  // namespace

PackedMatrix::PackedMatrix(std::span<const float> weights, std::span<const float> bias,
                           std::size_t inputs)
    : inputs_(inputs) {
    const std::size_t tiles = (bias.size() + kTileOutputs - 1) / kTileOutputs;
    lines_.assign(tiles * inputs, Line{});
    bias_.assign(tiles, Line{});
    for (std::size_t output = 0; output < bias.size(); ++output) {
        const std::size_t tile = output / kTileOutputs;
        const std::size_t lane = output % kTileOutputs;
        bias_[tile].values[lane] = bias[output];
        for (std::size_t input = 0; input < inputs; ++input)
            lines_[tile * inputs + input].values[lane] = weights[output * inputs + input];
    }
}

void multiply(const PackedMatrix& matrix, const Product& product, ConstColumns in, Columns out,
              std::size_t count) noexcept {
    constexpr std::size_t kBlock = 6;
    const std::size_t blocked = count - count % kBlock;
    // Tile by tile over all columns: the tile's weights stay in the first-level cache.
    for (std::size_t tile = 0; blocked > 0 && tile < matrix.tiles(); ++tile) {
        for (std::size_t column = 0; column < blocked; column += kBlock) {
            multiply_block<1, kBlock>(matrix, tile, product,
                                      {in.data + column * in.stride, in.stride},
                                      {out.data + column * out.stride, out.stride});
        }
    }
    multiply_few_columns(matrix, product, {in.data + blocked * in.stride, in.stride},
                         {out.data + blocked * out.stride, out.stride}, count - blocked);
}

void lstm_step(const float* gates, float* hidden, float* cell, std::size_t units) noexcept {
    for (std::size_t i = 0; i < units; i += 8) {
        const Float8 input = sigmoid(load(gates + i));
        const Float8 forget = sigmoid(load(gates + units + i));
        const Float8 candidate = hyperbolic_tangent(load(gates + 2 * units + i));
        const Float8 output = sigmoid(load(gates + 3 * units + i));
        const Float8 next = fused(forget, load(cell + i), input * candidate);
        store(cell + i, next);
        store(hidden + i, output * hyperbolic_tangent(next));
    }
}

float rectified_probability(std::span<const float> values, const float* weight,
                            float bias) noexcept {
    const Float8 zero = broadcast(0.0F);
    Float8 total = zero;
    for (std::size_t i = 0; i < values.size(); i += 8)
        total = fused(larger(load(values.data() + i), zero), load(weight + i), total);
    float lanes[8];
    store(lanes, sigmoid(broadcast(sum(total) + bias)));
    return lanes[0];
}

}  // namespace wavepool::silero_vad
