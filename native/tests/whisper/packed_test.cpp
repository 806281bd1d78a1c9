// Our own kernels for Whisper: each against plain arithmetic, and all of them bit by bit against
// themselves with other tiles, threads and rows.
#include <gtest/gtest.h>

#ifdef WAVEPOOL_PACKED_KERNELS

#include <array>
#include <cmath>
#include <numbers>
#include <random>
#include <vector>

#include "models/whisper/family.h"
#include "models/whisper/packed/packed_network.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/whisper_checkpoint.h"

namespace wavepool::whisper {
namespace {

std::vector<ByteTiles> all_tiles() {
    std::vector<ByteTiles> result{avx2_byte_tiles()};
    if (avx512_byte_tiles().multiply != nullptr) result.push_back(avx512_byte_tiles());
    return result;
}

TEST(WhisperKernels, TilesGiveTheExactSums) {
    constexpr std::int64_t kQuads = 12;
    constexpr std::int64_t kStride = 4 * kQuads + 6;
    std::mt19937 random(7);
    std::vector<std::uint8_t> panel(4 * kQuads * kPanelRows);
    for (auto& value : panel) value = static_cast<std::uint8_t>(random());
    std::vector<std::int8_t> columns(kMostTileColumns * kStride);
    for (auto& value : columns) value = static_cast<std::int8_t>(random());
    for (const ByteTiles& tiles : all_tiles()) {
        for (std::int64_t count = 1; count <= tiles.columns; ++count) {
            std::vector<std::int32_t> found(static_cast<std::size_t>(count * kPanelRows) + 1, -7);
            tiles.multiply(panel.data(), kQuads, columns.data(), kStride, count, found.data());
            for (std::int64_t i = 0; i < count * kPanelRows; ++i) {
                std::int32_t expected = 0;
                for (std::int64_t k = 0; k < 4 * kQuads; ++k) {
                    const std::int64_t at = (k / 4 * kPanelRows + i % kPanelRows) * 4 + k % 4;
                    expected += panel[static_cast<std::size_t>(at)] *
                                columns[static_cast<std::size_t>(i / kPanelRows * kStride + k)];
                }
                ASSERT_EQ(found[static_cast<std::size_t>(i)], expected) << count << " " << i;
            }
            EXPECT_EQ(found.back(), -7) << "written beyond the end";
        }
    }
}

TEST(WhisperKernels, ProductsAreThoseOfTheFloatsWithEveryNumberOfColumns) {
    constexpr std::int64_t kRows = 40;  // half a panel is padding
    constexpr std::int64_t kColumns = 64;
    constexpr std::int64_t kMost = 30;
    Arena arena(Allocation::kReal);
    ByteMatrix matrix(arena, kRows, kColumns);
    const std::vector<float> weights = testing::noise(kRows * kColumns, 3);
    const std::vector<float> biases = testing::noise(kRows, 5);
    const auto row_of = [](const std::vector<float>& from, std::int64_t row) {
        return std::span(from).subspan(static_cast<std::size_t>(row * kColumns), kColumns);
    };
    for (std::int64_t row = 0; row < kRows; ++row) matrix.set_row(row, row_of(weights, row));
    matrix.set_bias(0, biases);
    std::vector<float> read(kColumns);
    matrix.read_row(30, read);
    for (std::size_t i = 0; i < read.size(); ++i) {
        EXPECT_NEAR(read[i], row_of(weights, 30)[i], 0.5F / 127);
    }
    const std::vector<float> x = testing::noise(kMost * kColumns, 4);
    const ByteColumns columns = take_byte_columns(arena, kMost, kColumns);
    for (std::int64_t i = 0; i < kMost; ++i) {
        quantize_column(row_of(x, i).data(), kColumns, columns, i);
    }
    const std::int64_t stride = matrix.panels() * kPanelRows;
    std::vector<float> first;
    for (const ByteTiles& tiles : all_tiles()) {
        for (std::int64_t count = 1; count <= kMost; ++count) {
            std::vector<float> found(static_cast<std::size_t>(count * stride), 1.0F);
            multiply(tiles, matrix, {0, matrix.panels()}, columns, count, Write::kAdd,
                     {found.data(), stride});
            for (std::int64_t i = 0; i < count * kRows; ++i) {
                const std::int64_t column = i / kRows;
                const std::int64_t row = i % kRows;
                double expected = 1 + static_cast<double>(biases[static_cast<std::size_t>(row)]);
                for (std::size_t k = 0; k < kColumns; ++k) {
                    expected += static_cast<double>(row_of(weights, row)[k]) * row_of(x, column)[k];
                }
                ASSERT_NEAR(found[static_cast<std::size_t>(column * stride + row)], expected, 0.15);
            }
            if (count != kMost) continue;
            if (first.empty()) first = found;
            EXPECT_EQ(found, first) << "tiles differ";
        }
    }
}

TEST(WhisperKernels, AColumnOfZerosAndOneOfTinyValuesGiveTheBias) {
    Arena arena(Allocation::kReal);
    ByteMatrix matrix(arena, 16, 16);
    for (std::int64_t row = 0; row < 16; ++row) matrix.set_row(row, testing::noise(16, 3));
    matrix.set_bias(0, std::vector<float>(16, 2.0F));
    const ByteColumns columns = take_byte_columns(arena, 1, 16);
    for (const float value : {0.0F, 1e-38F}) {
        quantize_column(std::vector<float>(16, value).data(), 16, columns, 0);
        std::vector<float> found(16, 5.0F);
        multiply(best_byte_tiles(), matrix, {0, 1}, columns, 1, Write::kReplace,
                 {found.data(), 16});
        EXPECT_EQ(found, std::vector<float>(16, 2.0F));
    }
}

TEST(WhisperKernels, GeluIsWithin1e6OfLibm) {
    std::vector<float> x;
    for (float value = -8; value < 8; value += 0.015625F) x.push_back(value);
    std::vector<float> y = x;
    gelu_in_place(y.data(), static_cast<std::int64_t>(y.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double expected = 0.5 * x[i] * (1 + std::erf(x[i] / std::numbers::sqrt2));
        ASSERT_NEAR(y[i], expected, 1e-6) << x[i];
    }
}

TEST(WhisperKernels, TheSpectrogramIsThatOfItsDefinition) {
    constexpr std::int64_t kBins = 3;
    constexpr std::int64_t kSamples = 2000;
    std::vector<float> filters(kBins * LogMel::kFrequencies, 0.0F);
    for (std::size_t k = 1; k < 9; ++k) filters[k] = 0.25F;
    for (std::size_t k = 60; k < 201; ++k) filters[LogMel::kFrequencies + k] = 0.01F;
    Arena arena(Allocation::kReal);
    const LogMel log_mel(arena, filters, kBins);
    const std::vector<float> clip = testing::noise(kSamples, 1);
    const std::int64_t frames = LogMel::frames(kSamples);
    std::vector<float> found(static_cast<std::size_t>(frames * kBins));
    log_mel.compute(clip, 0, 3, found.data());
    log_mel.compute(clip, 3, frames - 3, found.data() + 3 * kBins);
    const auto sample = [&](std::int64_t at) {
        const auto index = static_cast<std::size_t>(std::abs(at));
        return index < clip.size() ? static_cast<double>(clip[index]) : 0.0;
    };
    for (std::int64_t frame = 0; frame < frames; ++frame) {
        std::array<double, kBins> sums{};
        for (std::int64_t k = 0; k < LogMel::kFrequencies; ++k) {
            double real = 0;
            double imaginary = 0;
            for (std::int64_t n = 0; n < LogMel::kWindow; ++n) {
                const double turn = 2 * std::numbers::pi / LogMel::kWindow;
                const double window = 0.5 - 0.5 * std::cos(turn * static_cast<double>(n));
                const double x = window * sample(frame * LogMel::kHop + n - LogMel::kWindow / 2);
                real += x * std::cos(turn * static_cast<double>(n * k));
                imaginary += x * std::sin(turn * static_cast<double>(n * k));
            }
            for (std::size_t bin = 0; bin < kBins; ++bin) {
                const auto at = bin * LogMel::kFrequencies + static_cast<std::size_t>(k);
                sums[bin] += filters[at] * (real * real + imaginary * imaginary);
            }
        }
        for (std::size_t bin = 0; bin < kBins; ++bin) {
            ASSERT_NEAR(found[static_cast<std::size_t>(frame * kBins) + bin],
                        std::log10(std::max(sums[bin], 1e-10)), 1e-4)
                << frame << " " << bin;
        }
    }
}

class WhisperPacked : public ::testing::Test {
  protected:
    void open(bool multilingual = false) {
        source_ = open_tensor_source(
            folder_.write("model.bin", testing::WhisperCheckpoint(multilingual).bytes()));
        checkpoint_ = std::make_unique<Checkpoint>(*source_);
    }

    testing::TemporaryFolder folder_;
    std::shared_ptr<const TensorSource> source_;
    std::unique_ptr<Checkpoint> checkpoint_;
};

TEST_F(WhisperPacked, GivesTheSameBitsWhateverTheTilesTheThreadsAndTheOtherRows) {
    open();
    const auto weights = PackedWeights::load(*checkpoint_, Allocation::kReal);
    ASSERT_NE(weights, nullptr);
    const auto never = [] { return false; };
    const auto scored = [&](const ByteTiles& tiles, int threads, std::int64_t rows) {
        const auto network =
            make_packed_network(weights, {.rows = 3, .samples = 60000, .threads = threads}, tiles);
        // The row that is looked at comes last and moves to the front.
        for (std::int64_t row = 0; row < rows; ++row) {
            const bool last = row + 1 == rows;
            network->encode(testing::noise(last ? 30000 : 50000, last ? 1 : 9), 0, last ? 200 : 300,
                            row, never);
        }
        std::vector<float> result;
        for (std::int32_t token = 1; token <= 3; ++token) {
            const std::vector<DecodeInput> inputs(static_cast<std::size_t>(rows), {token});
            network->decode(inputs, never);
            const auto scores = network->scores(rows - 1);
            result.insert(result.end(), scores.begin(), scores.end());
        }
        network->move_row(rows - 1, 0);
        network->decode(std::vector<DecodeInput>{{4}}, never);
        const auto scores = network->scores(0);
        result.insert(result.end(), scores.begin(), scores.end());
        return result;
    };
    const auto expected = scored(avx2_byte_tiles(), 1, 1);
    for (const ByteTiles& tiles : all_tiles()) {
        for (const int threads : {1, 2, 3}) {
            for (const std::int64_t rows : {1, 3}) {
                EXPECT_EQ(scored(tiles, threads, rows) == expected, true)
                    << tiles.columns << " columns, " << threads << " threads, " << rows << " rows";
            }
        }
    }
}

TEST_F(WhisperPacked, APlanSaysWhatIsTaken) {
    open(true);
    const auto real = load_packed_network_weights(*checkpoint_, Allocation::kReal);
    const auto planned = load_packed_network_weights(*checkpoint_, Allocation::kPlanned);
    EXPECT_EQ(planned->bytes(), real->bytes());
    const NetworkLimits limits{.rows = 3, .samples = 50000, .threads = 2};
    EXPECT_EQ(planned->network_bytes(limits), real->make_network(limits)->bytes());
}

TEST_F(WhisperPacked, RequestsOfEveryKindGiveTogetherWhatEachGivesAlone) {
    open(true);
    const auto model = load(*source_);
    const auto session = model->create_session({.max_batch = 8});
    std::vector<TaskRequest> requests;
    for (std::uint32_t seed = 1; seed <= 5; ++seed) {
        auto store = std::make_shared<SampleStore>();
        store->append(testing::noise(8000U * seed, seed));
        requests.push_back({{store, 0, store->end()}, nullptr, {}, CancelToken::create()});
    }
    requests[1].options["language"] = std::string("de");
    requests[3].options["prompt"] = std::string(" w1 w2");
    requests[4].options["suppressBlank"] = true;
    requests[2].options["words"] = true;
    const auto stock = load(*source_, Kernels::kStock);
    EXPECT_GT(model->info().weight_bytes, stock->info().weight_bytes);

    std::vector<TaskOutcome> alone;
    auto& offline = dynamic_cast<IBatchedOfflineVoiceTaskSession&>(*session);
    for (const TaskRequest& request : requests) {
        alone.push_back(offline.run_batch(std::span(&request, 1)).front());
    }
    const auto together = offline.run_batch(requests);
    for (std::size_t i = 0; i < requests.size(); ++i) {
        const auto& left = std::get<TaskResult>(alone[i]);
        const auto& right = std::get<TaskResult>(together[i]);
        EXPECT_EQ(left.tokens, right.tokens) << i;
        EXPECT_EQ(left.language, right.language) << i;
        EXPECT_EQ(left.text, right.text) << i;
    }
    EXPECT_EQ(std::get<TaskResult>(alone[1]).language, "de");
}

}  // namespace
}  // namespace wavepool::whisper

#endif
