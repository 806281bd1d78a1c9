// Tokens hide small differences, so this compares what the graphs compute bit by bit.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/moonshine/decoder_graph.h"
#include "models/moonshine/encoder_graph.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/moonshine_checkpoint.h"

namespace wavepool::moonshine {
namespace {

/// More than 512 frames: there ggml would split the keys of a lone row over its threads.
constexpr std::int64_t kSamples = 216000;
constexpr std::int64_t kRows = 3;
constexpr std::int64_t kTokens = 4;
/// By how much the clip of a row is longer than that of the row before: other rows mean more
/// positions, of which the first row must not see any.
constexpr std::int64_t kLonger = 16000;
constexpr std::int64_t kLongest = kSamples + (kRows - 1) * kLonger;

std::vector<std::byte> bytes_of(const ggml_tensor* tensor, std::int64_t row,
                                std::int64_t positions) {
    const auto* start =
        static_cast<const std::byte*>(tensor->data) + static_cast<std::size_t>(row) * tensor->nb[2];
    return {start, start + static_cast<std::size_t>(positions) * tensor->nb[1]};
}

/// Encodes one clip into the first row and longer ones into the others, decodes `kTokens` fixed
/// tokens and returns all that the last block cached for the first.
std::vector<std::vector<std::byte>> cached(const Weights& weights, int threads, std::int64_t rows) {
    CpuBackend backend(threads);
    const std::int64_t frames = frame_counts(kSamples).frames;
    Cache cache(weights.config, kRows, kTokens, frame_counts(kLongest).frames);
    EncoderGraph encoder(weights, kLongest, cache, threads);
    DecoderGraph decoder(weights, cache, threads);
    for (std::int64_t row = 0; row < rows; ++row) {
        const auto samples = testing::noise(static_cast<std::size_t>(kSamples + row * kLonger),
                                            static_cast<std::uint32_t>(row));
        backend.compute(encoder.prepare(samples, row));
        cache.row(row).frames = frame_counts(static_cast<std::int64_t>(samples.size())).frames;
    }
    for (std::int32_t token = 1; token <= kTokens; ++token) {
        backend.compute(
            decoder.prepare(std::vector<DecodeInput>(static_cast<std::size_t>(rows), {token})));
        for (std::int64_t row = 0; row < rows; ++row) ++cache.row(row).tokens;
    }
    const BlockCache& last = cache.block(weights.decoder.size() - 1);
    return {bytes_of(last.cross_key, 0, frames), bytes_of(last.cross_value, 0, frames),
            bytes_of(last.self_key, 0, kTokens), bytes_of(last.self_value, 0, kTokens)};
}

TEST(MoonshineGraphs, GiveTheSameBitsWhateverTheThreadsAndTheOtherRows) {
    const testing::TemporaryFolder folder;
    const auto weights = Weights::load(*open_tensor_source(
        folder.write("moonshine.gguf", testing::MoonshineCheckpoint().bytes())));
    const auto expected = cached(*weights, 1, 1);
    for (const int threads : {1, 2}) {
        for (const std::int64_t rows : {std::int64_t{1}, kRows}) {
            EXPECT_EQ(cached(*weights, threads, rows) == expected, true)
                << threads << " threads, " << rows << " rows";
        }
    }
}

}  // namespace
}  // namespace wavepool::moonshine
