// Our own kernels for Moonshine: each against plain arithmetic, all of them against ggml's, and bit
// by bit against themselves with other tiles, threads and rows.
#include <gtest/gtest.h>

#ifdef WAVEPOOL_PACKED_KERNELS

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/float8.h"
#include "models/moonshine/checkpoint.h"
#include "models/moonshine/packed/packed_decoder.h"
#include "models/moonshine/packed/packed_encoder.h"
#include "models/moonshine/packed/packed_network.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/moonshine_checkpoint.h"

namespace wavepool::moonshine {
namespace {

std::vector<Tiles> all_tiles() {
    std::vector<Tiles> result{avx2_tiles()};
    if (avx512_tiles().multiply != nullptr) result.push_back(avx512_tiles());
    return result;
}

TEST(MoonshineKernels, TilesGiveTheExactSums) {
    constexpr std::int64_t kPairs = 20;
    std::mt19937 random(7);
    std::vector<std::int8_t> panel(2 * kPairs * kPanelRows);
    for (auto& value : panel) value = static_cast<std::int8_t>(random());
    std::vector<std::int16_t> columns(kMostTileColumns * (2 * kPairs + 6));
    for (auto& value : columns) value = static_cast<std::int16_t>(random());
    const std::int64_t stride = 2 * kPairs + 6;
    for (const Tiles& tiles : all_tiles()) {
        for (std::int64_t count = 1; count <= tiles.columns; ++count) {
            std::vector<std::int32_t> found(static_cast<std::size_t>(count * kPanelRows) + 1, -7);
            tiles.multiply(panel.data(), kPairs, columns.data(), stride, count, found.data());
            for (std::int64_t i = 0; i < count * kPanelRows; ++i) {
                std::int32_t expected = 0;
                for (std::int64_t k = 0; k < 2 * kPairs; ++k) {
                    const std::int64_t at = (k / 2 * kPanelRows + i % kPanelRows) * 2 + k % 2;
                    expected += panel[static_cast<std::size_t>(at)] *
                                columns[static_cast<std::size_t>(i / kPanelRows * stride + k)];
                }
                ASSERT_EQ(found[static_cast<std::size_t>(i)], expected) << count << " " << i;
            }
            EXPECT_EQ(found.back(), -7) << "written beyond the end";
        }
    }
}

/// A matrix of two sources with scales and offsets of their own, and the same in floats.
struct StackedMatrix {
    static constexpr std::int64_t kRows = 40;  // half a panel is padding
    static constexpr std::int64_t kColumns = 64;

    StackedMatrix() {
        std::mt19937 random(3);
        for (const auto& [first, scale, offset] :
             {std::tuple{0, 0.01F, 0.3F}, {24, 0.02F, -0.1F}}) {
            std::vector<std::int8_t> values((first == 0 ? 24 : 16) * kColumns);
            for (auto& value : values) {
                value = static_cast<std::int8_t>(random());
                floats.push_back(scale * static_cast<float>(value) + offset);
            }
            packed.set_rows(first, values, scale, offset);
        }
    }

    Arena arena{Allocation::kReal};
    PackedMatrix packed{arena, kRows, kColumns};
    std::vector<float> floats;
};

TEST(MoonshineKernels, ProductsAreThoseOfTheFloatsWithEveryNumberOfColumns) {
    StackedMatrix matrix;
    std::vector<float> row(StackedMatrix::kColumns);
    matrix.packed.read_row(30, row);
    EXPECT_TRUE(
        std::equal(row.begin(), row.end(), matrix.floats.begin() + 30 * StackedMatrix::kColumns));
    constexpr std::int64_t kMost = 30;
    const std::vector<float> x = testing::noise(kMost * StackedMatrix::kColumns, 4);
    Columns columns = take_columns(matrix.arena, kMost, StackedMatrix::kColumns);
    for (std::int64_t i = 0; i < kMost; ++i) {
        quantize_column(matrix.packed, x.data() + i * StackedMatrix::kColumns, columns, i);
    }
    const std::int64_t stride = matrix.packed.panels() * kPanelRows;
    std::vector<float> first;
    for (const Tiles& tiles : all_tiles()) {
        for (std::int64_t count = 1; count <= kMost; ++count) {
            std::vector<float> found(static_cast<std::size_t>(count * stride), 1.0F);
            multiply(tiles, matrix.packed, {0, matrix.packed.panels()}, columns, count, Write::kAdd,
                     {found.data(), stride});
            for (std::int64_t i = 0; i < count; ++i) {
                for (std::int64_t r = 0; r < StackedMatrix::kRows; ++r) {
                    double expected = 1;
                    for (std::int64_t k = 0; k < StackedMatrix::kColumns; ++k) {
                        expected += static_cast<double>(matrix.floats[static_cast<std::size_t>(
                                        r * StackedMatrix::kColumns + k)]) *
                                    x[static_cast<std::size_t>(i * StackedMatrix::kColumns + k)];
                    }
                    ASSERT_NEAR(found[static_cast<std::size_t>(i * stride + r)], expected, 1e-3);
                }
            }
            if (count != kMost) continue;
            if (first.empty()) first = found;
            EXPECT_EQ(found, first) << "tiles differ";
        }
    }
}

TEST(MoonshineKernels, AColumnOfZerosAndOneOfTinyValuesGiveZeros) {
    StackedMatrix matrix;
    for (const float value : {0.0F, 1e-38F}) {
        const std::vector<float> x(StackedMatrix::kColumns, value);
        Columns columns = take_columns(matrix.arena, 1, StackedMatrix::kColumns);
        quantize_column(matrix.packed, x.data(), columns, 0);
        std::vector<float> found(48, 5.0F);
        multiply(best_tiles(), matrix.packed, {0, 3}, columns, 1, Write::kReplace,
                 {found.data(), 48});
        EXPECT_EQ(found, std::vector<float>(48, 0.0F));
    }
}

/// What a query gets from all positions, in doubles.
std::vector<double> attended(const std::vector<float>& keys, const std::vector<float>& values,
                             const float* query, std::size_t width, std::size_t positions) {
    std::vector<double> weights(positions);
    double total = 0;
    for (std::size_t t = 0; t < positions; ++t) {
        double score = 0;
        for (std::size_t d = 0; d < width; ++d) {
            score += static_cast<double>(query[d]) * keys[t * width + d];
        }
        total += weights[t] = std::exp(score);
    }
    std::vector<double> result(width);
    for (std::size_t t = 0; t < positions; ++t) {
        for (std::size_t d = 0; d < width; ++d) {
            result[d] += weights[t] / total * values[t * width + d];
        }
    }
    return result;
}

TEST(MoonshineKernels, AttentionIsThatOfDoublesForEveryWidthAndLength) {
    for (const std::size_t width : {4U, 12U, 20U, 28U, 36U, 44U, 52U, 64U}) {
        for (const std::size_t positions : {1U, 2U, 15U, 16U, 17U, 33U, 200U}) {
            const std::vector<float> keys = testing::noise(positions * width, 1);
            const std::vector<float> values = testing::noise(positions * width, 2);
            std::vector<float> queries = testing::noise(kQueriesAtOnce * width, 3);
            for (float& value : queries) value *= 6;
            const auto stride =
                static_cast<std::size_t>(padded_positions(static_cast<std::int64_t>(positions)));
            // What lies behind the last position must not matter.
            std::vector<float> turned(width * stride, 1e3F);
            std::vector<std::uint16_t> half_keys(width * stride, 0x4000);
            std::vector<std::uint16_t> half_values(positions * width + 8, 0x4000);
            for (std::size_t t = 0; t < positions; ++t) {
                for (std::size_t d = 0; d < width; ++d) {
                    turned[d * stride + t] = keys[t * width + d];
                    half_keys[d * stride + t] = to_half(keys[t * width + d]);
                    half_values[t * width + d] = to_half(values[t * width + d]);
                }
            }
            std::vector<float> padded = values;
            padded.resize(values.size() + 8, 1e3F);
            const HeadCache<float> head{.keys = turned.data(),
                                        .key_stride = static_cast<std::int64_t>(stride),
                                        .values = padded.data(),
                                        .width = static_cast<std::int64_t>(width),
                                        .positions = static_cast<std::int64_t>(positions)};
            const HeadCache<std::uint16_t> half{.keys = half_keys.data(),
                                                .key_stride = head.key_stride,
                                                .values = half_values.data(),
                                                .width = head.width,
                                                .positions = head.positions};
            std::vector<float> scores(static_cast<std::size_t>(kQueriesAtOnce) * stride);
            std::vector<float> together(queries.size());
            attend(head, queries.data(), head.width, kQueriesAtOnce, scores.data(),
                   together.data());
            for (std::size_t q = 0; q < static_cast<std::size_t>(kQueriesAtOnce); ++q) {
                const float* query = queries.data() + q * width;
                const auto expected = attended(keys, values, query, width, positions);
                std::vector<float> alone(width);
                attend(head, query, head.width, 1, scores.data(), alone.data());
                std::vector<float> halved(width);
                attend(half, query, scores.data(), halved.data());
                for (std::size_t d = 0; d < width; ++d) {
                    ASSERT_NEAR(alone[d], expected[d], 1e-5) << width << " " << positions;
                    ASSERT_NEAR(halved[d], expected[d], 4e-3) << width << " " << positions;
                    ASSERT_EQ(alone[d], together[q * width + d]) << width << " " << positions;
                }
            }
        }
    }
}

TEST(MoonshineKernels, NormsGatesAndRotationsAreThoseOfDoubles) {
    constexpr std::size_t kLength = 96;
    const std::vector<float> x = testing::noise(kLength, 5);
    const std::vector<float> weight = testing::noise(kLength, 6);
    std::vector<float> found(kLength);
    layer_norm(x.data(), weight, found.data());
    const double mean = std::accumulate(x.begin(), x.end(), 0.0) / kLength;
    double variance = 0;
    for (const float value : x) variance += (value - mean) * (value - mean) / kLength;
    for (std::size_t i = 0; i < kLength; ++i) {
        EXPECT_NEAR(found[i], (x[i] - mean) / std::sqrt(variance + 1e-5) * weight[i], 1e-6);
    }

    const std::vector<float> bias = testing::noise(2 * kLength, 8);
    std::vector<float> gates = testing::noise(kLength, 9);
    for (float& value : gates) value *= 300;
    found = x;
    gate(found.data(), bias.data(), gates.data(), bias.data() + kLength, kLength);
    for (std::size_t i = 0; i < kLength; ++i) {
        const double opened = gates[i] + bias[kLength + i];
        EXPECT_NEAR(found[i], (x[i] + bias[i]) * opened / (1 + std::exp(-opened)), 1e-4);
    }

    Arena arena(Allocation::kReal);
    const Config config{.width = 96, .heads = 8, .rotary_dimensions = 8};
    const Rotary rotary(arena, config, 900);
    found = x;
    rotary.rotate(found.data(), 899);
    for (std::size_t pair = 0; pair < 4; ++pair) {
        const double angle = 899 * std::pow(10000, -2.0 * static_cast<double>(pair) / 8);
        const double a = x[2 * pair];
        const double b = x[2 * pair + 1];
        EXPECT_NEAR(found[2 * pair], a * std::cos(angle) - b * std::sin(angle), 1e-6);
        EXPECT_NEAR(found[2 * pair + 1], b * std::cos(angle) + a * std::sin(angle), 1e-6);
    }
    EXPECT_TRUE(std::equal(found.begin() + 8, found.end(), x.begin() + 8));
}

class MoonshinePacked : public ::testing::Test {
  protected:
    MoonshinePacked() {
        testing::MoonshineCheckpoint checkpoint;
        checkpoint.integers = true;
        source_ = open_tensor_source(folder_.write("moonshine.gguf", checkpoint.bytes()));
        weights_ = PackedWeights::load(*source_, Allocation::kReal);
    }

    testing::TemporaryFolder folder_;
    std::shared_ptr<const TensorSource> source_;
    std::shared_ptr<const PackedWeights> weights_;
};

/// All that the caches hold of the first positions of a row.
std::vector<std::uint16_t> contents(const Config& config, const PositionCache& cache,
                                    std::int64_t positions) {
    std::vector<std::uint16_t> result;
    for (std::int64_t block = 0; block < config.decoder_blocks; ++block) {
        for (std::int64_t h = 0; h < config.heads; ++h) {
            const HeadCache<std::uint16_t> head = cache.head(block, h, positions);
            for (std::int64_t d = 0; d < head.width; ++d) {
                result.insert(result.end(), head.keys + d * head.key_stride,
                              head.keys + d * head.key_stride + positions);
            }
            result.insert(result.end(), head.values, head.values + positions * head.width);
        }
    }
    return result;
}

TEST_F(MoonshinePacked, GivesTheSameBitsWhateverTheTilesTheThreadsAndTheOtherRows) {
    constexpr std::int64_t kSamples = 47000;
    constexpr std::int64_t kTokens = 4;
    const Config& config = weights_->config();
    const auto cached = [&](const Tiles& tiles, int threads, std::int64_t rows) {
        const NetworkLimits limits{
            .rows = 3, .samples = kSamples + 32000, .tokens = kTokens, .threads = threads};
        const std::int64_t frames = frame_counts(limits.samples).frames;
        CpuBackend backend(threads);
        Arena arena(Allocation::kReal);
        const Rotary rotary(arena, config, frames);
        RowCaches cache(arena, limits.rows, cache_sizes(config, limits.tokens),
                        cache_sizes(config, frames));
        PackedEncoder encoder(arena, *weights_, tiles, rotary, limits.samples, threads);
        PackedDecoder decoder(arena, *weights_, tiles, rotary, cache, limits);
        for (std::int64_t row = 0; row < rows; ++row) {
            const auto samples = testing::noise(static_cast<std::size_t>(kSamples + row * 16000),
                                                static_cast<std::uint32_t>(row));
            backend.compute(encoder.prepare(samples, cache.row(row)));
            cache.row(row).frames = frame_counts(static_cast<std::int64_t>(samples.size())).frames;
        }
        for (std::int32_t token = 1; token <= kTokens; ++token) {
            const std::vector<DecodeInput> inputs(static_cast<std::size_t>(rows), {token});
            backend.compute(decoder.prepare(inputs));
            for (std::int64_t row = 0; row < rows; ++row) ++cache.row(row).tokens;
        }
        return std::pair{contents(config, cache.row(0).cross, cache.row(0).frames),
                         contents(config, cache.row(0).self, kTokens)};
    };
    const auto expected = cached(avx2_tiles(), 1, 1);
    for (const Tiles& tiles : all_tiles()) {
        for (const int threads : {1, 2, 3}) {
            for (const std::int64_t rows : {1, 3}) {
                EXPECT_EQ(cached(tiles, threads, rows) == expected, true)
                    << tiles.columns << " columns, " << threads << " threads, " << rows << " rows";
            }
        }
    }
}

TEST_F(MoonshinePacked, ChoosesTheTokensThatGgmlChooses) {
    const NetworkLimits limits{.rows = 2, .samples = 64000, .tokens = 24, .threads = 2};
    const auto packed = make_packed_network(weights_, limits);
    const auto stock = make_stock_network(Weights::load(*source_), limits);
    const auto never = [] { return false; };
    std::size_t equal = 0;
    std::size_t steps = 0;
    for (std::uint32_t seed = 0; seed < 4; ++seed) {
        for (Network* network : {packed.get(), stock.get()}) {
            network->encode(testing::noise(20000 + 10000 * seed, seed), 0, never);
            network->encode(testing::noise(900, seed + 9), 1, never);
        }
        for (std::int32_t step = 0; step < 24; ++step) {
            // The same tokens for both, so that a near-tie has no consequences.
            const std::vector<DecodeInput> inputs{{.token = 1 + step * 13}, {.token = 300 - step}};
            std::vector<std::int32_t> ours(2);
            std::vector<std::int32_t> theirs(2);
            packed->decode(inputs, ours, never);
            stock->decode(inputs, theirs, never);
            for (const std::size_t row : {0U, 1U}) equal += ours[row] == theirs[row];
            steps += 2;
        }
    }
    EXPECT_GE(equal * 100, steps * 95) << equal << " of " << steps;
}

TEST_F(MoonshinePacked, FloatsAreLeftToGgmlAndAPlanSaysWhatIsTaken) {
    const auto packed = load_checkpoint(*source_, Kernels::kBest, Allocation::kReal);
    EXPECT_EQ(packed->bytes(), weights_->bytes());
    const auto planned = load_checkpoint(*source_, Kernels::kBest, Allocation::kPlanned);
    EXPECT_EQ(planned->bytes(), packed->bytes());
    const NetworkLimits limits{.rows = 3, .samples = 50000, .tokens = 30, .threads = 2};
    EXPECT_EQ(planned->network_bytes(limits), packed->make_network(limits)->bytes());

    const auto stock = load_checkpoint(*source_, Kernels::kStock, Allocation::kReal);
    EXPECT_EQ(stock->bytes(), Weights::load(*source_)->bytes());
    const auto floats =
        open_tensor_source(folder_.write("floats.gguf", testing::MoonshineCheckpoint().bytes()));
    EXPECT_EQ(PackedWeights::load(*floats, Allocation::kReal), nullptr);
}

}  // namespace
}  // namespace wavepool::moonshine

#endif
