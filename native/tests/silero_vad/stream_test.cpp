// What the streaming sessions of silero-vad promise beyond the contract of every family.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "framework/sessions/stream_run.h"
#include "models/silero_vad/silero_vad.h"
#include "tests/support/error_code.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/silero_vad_checkpoint.h"

namespace wavepool {
namespace {

using testing::code_thrown_by;
using testing::VadCheckpoint;
using testing::VadCheckpointFile;

constexpr std::size_t kWindow = 512;

const std::shared_ptr<const ILoadedModel>& model() {
    static const std::shared_ptr<const ILoadedModel> loaded = [] {
        const VadCheckpointFile file{VadCheckpoint{}};
        return silero_vad::load(*open_tensor_source(file.path()));
    }();
    return loaded;
}

std::unique_ptr<IVoiceTaskSession> streaming() {
    return model()->create_session({.mode = RunMode::kStreaming});
}

std::vector<float> offline(const std::vector<float>& samples) {
    TaskRequest request;
    auto store = std::make_shared<SampleStore>();
    store->append(samples);
    request.audio = {store, 0, store->end()};
    request.state = model()->create_state();
    const auto session = model()->create_session({});
    return dynamic_cast<IOfflineVoiceTaskSession&>(*session).run(request).probabilities;
}

void add(std::vector<float>& sum, const std::vector<float>& part) {
    sum.insert(sum.end(), part.begin(), part.end());
}

TEST(SileroVadStream, GivesTheBitsOfTheOfflineSessionWhateverTheChunks) {
    const std::vector<float> samples = testing::noise(60 * kWindow + 123, 5);
    const std::vector<float> expected = offline(samples);
    ASSERT_EQ(expected.size(), 61U);
    const auto session = streaming();
    // A pattern of sizes that meets every phase of a window, empty chunks included.
    for (const std::size_t step : {1, 37, 160, 511, 513, 4099}) {
        StreamRun stream(*session, {});
        std::vector<float> found;
        std::span<const float> rest = samples;
        for (std::size_t size = 0; !rest.empty(); size = (size + step) % (step * 3 + 1)) {
            const auto chunk = rest.first(std::min(size, rest.size()));
            if (const auto part = stream.push(chunk)) add(found, part->probabilities);
            rest = rest.subspan(chunk.size());
        }
        add(found, stream.finish().probabilities);
        EXPECT_EQ(found, expected) << step;
    }
}

TEST(SileroVadStream, TellsAWindowWithTheChunkThatCompletesIt) {
    const auto session = streaming();
    StreamRun stream(*session, {});
    const std::vector<float> samples = testing::noise(kWindow, 6);
    EXPECT_FALSE(stream.push(std::span(samples).first(kWindow - 1)).has_value());
    const auto first = stream.push(std::span(samples).last(1));
    ASSERT_TRUE(first.has_value());
    EXPECT_EQ(first->probabilities, offline(samples));
    EXPECT_TRUE(stream.finish().probabilities.empty());
}

TEST(SileroVadStream, EndsWithTheFirstSampleThatIsNoSoundAndIsCleanAfterwards) {
    const auto session = streaming();
    const std::vector<float> good = testing::noise(10 * kWindow, 7);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e30F}) {
        StreamRun stream(*session, {});
        (void)stream.push(good);
        std::vector<float> spoiled(kWindow, 0.1F);
        spoiled[3] = bad;
        EXPECT_EQ(code_thrown_by([&] { (void)stream.push(spoiled); }), "INPUT_UNDECODABLE");
        StreamRun next(*session, {});
        const auto found = next.push(good);
        ASSERT_TRUE(found.has_value());
        EXPECT_EQ(found->probabilities, offline(good));
    }
}

TEST(SileroVadStream, HoldsNoMoreMemoryLaterThanEarly) {
    const auto session = streaming();
    StreamRun stream(*session, {});
    const std::vector<float> second(16000, 0.1F);
    (void)stream.push(second);
    (void)stream.push(second);
    const std::size_t early = session->private_bytes();
    for (int i = 0; i < 100; ++i) (void)stream.push(second);
    EXPECT_LE(session->private_bytes(), early + 16000 * sizeof(float));
    EXPECT_LT(session->private_bytes(), std::size_t{1} << 20);
}

}  // namespace
}  // namespace wavepool
