// Which windows of a clip are decoded, and what becomes of each, on a network that says what it is
// told to.
#include "models/whisper/decoding/batch.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "models/whisper/checkpoint/checkpoint_stream.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/whisper_checkpoint.h"

namespace wavepool::whisper {
namespace {

constexpr std::int32_t kFirst = 1;
constexpr std::int32_t kSecond = 2;
constexpr std::int32_t kRivals = 30;
constexpr int kSeconds = 20;
constexpr std::int64_t kFrames = 1280;  // frames of the reduced context for so many seconds

struct Saying {
    std::vector<std::int32_t> tokens;
    bool likely = true;
};

/// Says one thing after each encoding.
class ScriptedNetwork final : public Network {
  public:
    ScriptedNetwork(std::size_t vocabulary, std::vector<Saying> script)
        : script_(std::move(script)), scores_(vocabulary) {}

    void encode(std::span<const float> /*clip*/, std::int64_t ticks, std::int64_t frames,
                std::int64_t /*row*/, const AbortCheck& /*abort*/) override {
        encoded.emplace_back(ticks, frames);
        step_ = 0;
    }
    void decode(std::span<const DecodeInput> inputs, const AbortCheck& /*abort*/) override {
        if (!inputs.front().scored) return;
        const Saying& saying = script_.at(encoded.size() - 1);
        std::ranges::fill(scores_, -20.0F);
        if (!saying.likely) std::fill_n(scores_.begin() + kFirst, kRivals, -0.01F);
        scores_[static_cast<std::size_t>(saying.tokens.at(step_++))] = 0;
    }
    [[nodiscard]] std::span<float> scores(std::int64_t /*row*/) noexcept override {
        return scores_;
    }
    void move_row(std::int64_t /*from*/, std::int64_t /*to*/) override {}
    [[nodiscard]] std::size_t bytes() const noexcept override { return 0; }

    std::vector<std::pair<std::int64_t, std::int64_t>> encoded;  ///< ticks, frames

  private:
    std::vector<Saying> script_;
    std::vector<float> scores_;
    std::size_t step_ = 0;
};

class WhisperBatch : public ::testing::Test {
  protected:
    WhisperBatch() {
        const auto source =
            open_tensor_source(folder_.write("model.bin", testing::WhisperCheckpoint().bytes()));
        const Checkpoint checkpoint(*source);
        CheckpointStream stream(checkpoint);
        whisper_model_loader loader = stream.loader();
        model_ = std::make_unique<SharedModel>(checkpoint, library::load(loader), nullptr);
    }

    [[nodiscard]] std::int32_t time(double seconds) const {
        return model_->special.first_time + static_cast<std::int32_t>(seconds * 50);
    }
    [[nodiscard]] std::int32_t end() const { return model_->special.end; }

    /// The tokens of a request decoded on such a network; none when it was handed back.
    std::vector<std::int32_t> decode_script(std::vector<Saying> script) {
        ScriptedNetwork network(static_cast<std::size_t>(model_->parameters.vocabulary),
                                std::move(script));
        std::vector<std::int32_t> tokens;
        const std::vector<TaskRequest> requests(1);
        Batch batch(
            {.model = *model_,
             .network = network,
             .rows = 1,
             .read =
                 [](const TaskRequest&, Clip& clip) {
                     clip.samples.assign(kSeconds * kSampleRate, 0.0F);
                     clip.seconds = kSeconds;
                 },
             .end = [&](std::size_t,
                        TaskOutcome outcome) { tokens = std::get<TaskResult>(outcome).tokens; },
             .hand_back = [](std::size_t) {}},
            requests);
        const std::size_t index = 0;
        batch.run({&index, 1});
        encoded_ = network.encoded;
        return tokens;
    }

    using Encoded = std::vector<std::pair<std::int64_t, std::int64_t>>;

    testing::TemporaryFolder folder_;
    std::unique_ptr<SharedModel> model_;
    Encoded encoded_;
};

TEST_F(WhisperBatch, AnUnlikelyRestCostsNothingThatWasHeardBeforeIt) {
    const Saying most{{time(0), kFirst, time(18), time(18), end()}};
    const Saying rest{{time(0), kSecond, end()}, false};
    EXPECT_EQ(decode_script({most, rest, rest}), (std::vector<std::int32_t>{kFirst, kSecond}));
    EXPECT_EQ(encoded_, (Encoded{{0, kFrames}, {1800, kFrames}, {1800, kAudioContext}}));
}

TEST_F(WhisperBatch, ARestThatRepeatsItselfOrALongUnlikelyOneIsHandedBack) {
    const Saying most{{time(0), kFirst, time(18), time(18), end()}};
    const Saying loop{{time(0), kSecond, kSecond, kSecond, kSecond}};
    EXPECT_TRUE(decode_script({most, loop, loop}).empty());
    const Saying half{{time(0), kFirst, time(10), time(10), end()}};
    const Saying unlikely{{time(0), kSecond, end()}, false};
    EXPECT_TRUE(decode_script({half, unlikely, unlikely}).empty());
    EXPECT_EQ(encoded_.back(), (std::pair<std::int64_t, std::int64_t>(1000, kAudioContext)));
}

TEST_F(WhisperBatch, WhatIsPassedOverAsSilenceIsHeardAgain) {
    const Saying early{{time(0), kFirst, time(2), end()}};
    const Saying remaining{{time(0), kSecond, time(18)}};
    EXPECT_EQ(decode_script({early, early, remaining}),
              (std::vector<std::int32_t>{kFirst, kSecond}));
    EXPECT_EQ(encoded_, (Encoded{{0, kFrames}, {0, kAudioContext}, {200, kAudioContext}}));
    const Saying late{{time(0), kFirst, time(16), end()}};
    EXPECT_EQ(decode_script({late}), std::vector<std::int32_t>{kFirst});
}

}  // namespace
}  // namespace wavepool::whisper
