#include "models/silero_vad/kernels.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/exponentials.h"

namespace wavepool::silero_vad {

using namespace kernels;

namespace {

constexpr std::size_t kBlockColumns = 6;
/// Blocks of columns that a tile's weights meet before the next tile comes.
constexpr std::size_t kBlocks = 4;
/// Of any product with rectified inputs.
constexpr std::size_t kMostListed = 512;

/// Which inputs of a product a block of columns takes.
struct EveryInput {
    std::size_t count;
    std::size_t operator[](std::size_t index) const noexcept { return index; }
};

/// Those that are not zero in all columns of the block.
struct ListedInputs {
    std::array<std::uint16_t, kMostListed> list;
    std::size_t count;
    std::size_t operator[](std::size_t index) const noexcept { return list[index]; }
};

/// Of a multiple of 8 inputs, none of them negative.
void list_inputs(std::size_t inputs, ConstColumns in, std::size_t columns,
                 ListedInputs& listed) noexcept {
    std::size_t count = 0;
    for (std::size_t i = 0; i < inputs; i += 8) {
        Float8 total = load(in.data + i);
        for (std::size_t c = 1; c < columns; ++c) total = total + load(in.data + c * in.stride + i);
        float lanes[8];
        store(lanes, total);
        for (std::size_t lane = 0; lane < 8; ++lane) {
            listed.list[count] = static_cast<std::uint16_t>(i + lane);
            count += lanes[lane] != 0 ? 1 : 0;
        }
    }
    listed.count = count;
}

/// `TileCount` tiles × `ColumnCount` columns, held in registers from the first input to the last:
/// at most 12 accumulators fit, and 8 are needed to hide the latency of a multiply-add.
template <std::size_t TileCount, std::size_t ColumnCount, typename Inputs>
void multiply_block(const PackedMatrix& matrix, std::size_t first_tile, const Product& product,
                    const Inputs& inputs, ConstColumns in, Columns out) noexcept {
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

    for (std::size_t index = 0; index < inputs.count; ++index) {
        const std::size_t i = inputs[index];
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
template <std::size_t TileCount, std::size_t ColumnCount, typename Inputs>
void multiply_columns(const PackedMatrix& matrix, const Product& product, const Inputs& inputs,
                      ConstColumns in, Columns out) noexcept {
    std::size_t tile = 0;
    for (; tile + TileCount <= matrix.tiles(); tile += TileCount)
        multiply_block<TileCount, ColumnCount>(matrix, tile, product, inputs, in, out);
    for (; tile < matrix.tiles(); ++tile)
        multiply_block<1, ColumnCount>(matrix, tile, product, inputs, in, out);
}

template <typename Inputs>
void multiply_few_columns(const PackedMatrix& matrix, const Product& product, const Inputs& inputs,
                          ConstColumns in, Columns out, std::size_t count) noexcept {
    switch (count) {
        case 1:
            return multiply_columns<4, 1>(matrix, product, inputs, in, out);
        case 2:
            return multiply_columns<2, 2>(matrix, product, inputs, in, out);
        case 3:
            return multiply_columns<2, 3>(matrix, product, inputs, in, out);
        case 4:
            return multiply_columns<1, 4>(matrix, product, inputs, in, out);
        case 5:
            return multiply_columns<1, 5>(matrix, product, inputs, in, out);
        default:
            return;
    }
}

ConstColumns from(ConstColumns columns, std::size_t first) noexcept {
    return {columns.data + first * columns.stride, columns.stride};
}
Columns from(Columns columns, std::size_t first) noexcept {
    return {columns.data + first * columns.stride, columns.stride};
}

/// `choose` is told the columns of a block and writes which inputs they take.
template <typename Inputs, typename Choose>
void multiply_blocks(const PackedMatrix& matrix, const Product& product, ConstColumns in,
                     Columns out, std::size_t count, Choose choose) noexcept {
    std::array<Inputs, kBlocks> inputs;
    while (count >= kBlockColumns) {
        const std::size_t blocks = std::min(kBlocks, count / kBlockColumns);
        for (std::size_t block = 0; block < blocks; ++block)
            choose(from(in, block * kBlockColumns), kBlockColumns, inputs[block]);
        // Tile by tile over the blocks: the tile's weights stay in the first-level cache.
        for (std::size_t tile = 0; tile < matrix.tiles(); ++tile) {
            for (std::size_t block = 0; block < blocks; ++block) {
                multiply_block<1, kBlockColumns>(matrix, tile, product, inputs[block],
                                                 from(in, block * kBlockColumns),
                                                 from(out, block * kBlockColumns));
            }
        }
        in = from(in, blocks * kBlockColumns);
        out = from(out, blocks * kBlockColumns);
        count -= blocks * kBlockColumns;
    }
    if (count == 0) return;
    choose(in, count, inputs[0]);
    multiply_few_columns(matrix, product, inputs[0], in, out, count);
}

Float8 sigmoid(Float8 x) noexcept {
    const Float8 one = broadcast(1.0F);
    return one / (one + taylor_exponential(broadcast(0.0F) - x));
}

Float8 hyperbolic_tangent(Float8 x) noexcept {
    const Float8 one = broadcast(1.0F);
    return one - broadcast(2.0F) / (one + taylor_exponential(x + x));
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
    if (product.rectified) {
        multiply_blocks<ListedInputs>(
            matrix, product, in, out, count,
            [&](ConstColumns columns, std::size_t width, ListedInputs& listed) {
                list_inputs(product.inputs, columns, width, listed);
            });
    } else {
        multiply_blocks<EveryInput>(
            matrix, product, in, out, count,
            [&](ConstColumns, std::size_t, EveryInput& every) { every.count = product.inputs; });
    }
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
    store(lanes, sigmoid(broadcast(sum_of(total) + bias)));
    return lanes[0];
}

}  // namespace wavepool::silero_vad
