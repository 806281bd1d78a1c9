// The session over a small checkpoint with random weights: what does not depend on what a real
// model hears. moonshine_tiny_test.cpp has the rest.
#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "models/moonshine/moonshine.h"
#include "models/moonshine/session.h"
#include "tests/support/error_code.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/moonshine_checkpoint.h"

namespace wavepool::moonshine {
namespace {

using testing::code_thrown_by;
using testing::MoonshineCheckpoint;

TaskRequest request_for(const std::vector<float>& samples) {
    auto store = std::make_shared<SampleStore>();
    store->append(samples);
    return {
        {store, 0, static_cast<std::int64_t>(samples.size())}, nullptr, {}, CancelToken::create()};
}

/// Requests of up to 13.5 s, so that more than 512 frames occur, where ggml has paths of its own.
std::vector<TaskRequest> eight_lengths() {
    std::vector<TaskRequest> requests;
    for (const std::size_t samples :
         {16000U, 47321U, 5000U, 216000U, 895U, 120000U, 31999U, 64000U}) {
        requests.push_back(request_for(testing::noise(samples, static_cast<unsigned>(samples))));
    }
    return requests;
}

void expect_equal(const TaskOutcome& found, const TaskResult& expected) {
    ASSERT_TRUE(std::holds_alternative<TaskResult>(found)) << std::get<Error>(found).what();
    EXPECT_EQ(std::get<TaskResult>(found).tokens, expected.tokens);
    EXPECT_EQ(std::get<TaskResult>(found).text, expected.text);
    EXPECT_EQ(std::get<TaskResult>(found).truncated, expected.truncated);
}

std::string code_of(const TaskOutcome& outcome) {
    const Error* error = std::get_if<Error>(&outcome);
    return error == nullptr ? "nothing" : std::string(error_code_name(error->code()));
}

/// Over floats, which ggml computes, and over integers, which our own kernels compute.
class Moonshine : public ::testing::TestWithParam<bool> {
  protected:
    static std::shared_ptr<const ILoadedModel> load_checkpoint(MoonshineCheckpoint from) {
        const testing::TemporaryFolder folder;
        from.integers = GetParam();
        return load(*open_tensor_source(folder.write("moonshine.gguf", from.bytes())));
    }

    std::unique_ptr<IVoiceTaskSession> session(std::size_t batch, int threads = 1) const {
        return model_->create_session(
            {.threads = threads, .max_batch = batch, .max_segment_seconds = 14});
    }
    static std::vector<TaskOutcome> run(
        IVoiceTaskSession& session, const std::vector<TaskRequest>& requests,
        const IBatchedOfflineVoiceTaskSession::OnResult& on_result = {}) {
        return dynamic_cast<IBatchedOfflineVoiceTaskSession&>(session).run_batch(requests,
                                                                                 on_result);
    }
    std::vector<TaskResult> each_alone(const std::vector<TaskRequest>& requests) const {
        const auto alone = session(1);
        std::vector<TaskResult> results;
        for (const TaskRequest& request : requests) {
            results.push_back(dynamic_cast<IOfflineVoiceTaskSession&>(*alone).run(request));
        }
        return results;
    }

    std::shared_ptr<const ILoadedModel> model_ = load_checkpoint(MoonshineCheckpoint());
};

TEST_P(Moonshine, EightLengthsInABatchEqualEachAloneAtOneAndTwoThreads) {
    const auto requests = eight_lengths();
    const auto expected = each_alone(requests);
    for (const int threads : {1, 2}) {
        const auto batched = session(requests.size(), threads);
        for (int repetition = 0; repetition < 2; ++repetition) {
            const auto outcomes = run(*batched, requests);
            for (std::size_t i = 0; i < requests.size(); ++i) {
                SCOPED_TRACE(i);
                expect_equal(outcomes[i], expected[i]);
            }
        }
    }
    EXPECT_NE(expected[0].tokens, expected[1].tokens) << "the checkpoint ignores its input";
}

TEST_P(Moonshine, EveryItemIsReportedWhenItEndsTheShortestFirst) {
    const auto requests = eight_lengths();
    std::vector<std::size_t> order;
    const auto outcomes = run(*session(8), requests, [&](std::size_t index, const TaskOutcome& o) {
        order.push_back(index);
        EXPECT_EQ(std::get<TaskResult>(o).tokens.size(),
                  static_cast<std::size_t>(token_limit(requests[index].audio.count)));
    });
    EXPECT_EQ(order, (std::vector<std::size_t>{4, 2, 0, 6, 1, 7, 5, 3}));
}

TEST_P(Moonshine, AMemberCancelledHalfWayLeavesTheOthersUnchanged) {
    const auto requests = eight_lengths();
    const auto expected = each_alone(requests);
    const auto outcomes = run(*session(8), requests, [&](std::size_t index, const TaskOutcome&) {
        if (index == 2) requests[3].cancel.cancel();
    });
    EXPECT_EQ(code_of(outcomes[3]), "CANCELLED");
    for (const std::size_t i : {0, 1, 2, 4, 5, 6, 7}) expect_equal(outcomes[i], expected[i]);
}

TEST_P(Moonshine, ABatchEndsWhenAllItsMembersAreCancelled) {
    const auto requests = eight_lengths();
    const auto served = session(8);
    std::size_t reported = 0;
    const auto outcomes = run(*served, requests, [&](std::size_t index, const TaskOutcome&) {
        ++reported;
        if (index != 4) return;
        for (const TaskRequest& request : requests) request.cancel.cancel();
    });
    EXPECT_EQ(reported, requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
        EXPECT_EQ(code_of(outcomes[i]), i == 4 ? "nothing" : "CANCELLED") << i;
    }
    const auto fresh = eight_lengths();
    expect_equal(run(*served, fresh)[3], each_alone({fresh[3]})[0]);
}

TEST_P(Moonshine, AnAbortedComputationLeavesTheNetworkUsable) {
    const testing::TemporaryFolder folder;
    MoonshineCheckpoint from;
    from.integers = GetParam();
    const auto checkpoint = moonshine::load_checkpoint(
        *open_tensor_source(folder.write("moonshine.gguf", from.bytes())), Kernels::kBest,
        Allocation::kReal);
    const auto network =
        checkpoint->make_network({.rows = 1, .samples = 32000, .tokens = 20, .threads = 2});
    const std::vector<float> samples = testing::noise(32000, 5);
    const std::vector<DecodeInput> start{{.token = kStartToken}};
    std::vector<std::int32_t> expected{-1};
    std::vector<std::int32_t> found{-1};
    const auto never = [] { return false; };
    network->encode(samples, 0, never);
    network->decode(start, expected, never);

    int polls = 0;
    const auto soon = [&] { return ++polls > 3; };
    EXPECT_EQ(code_thrown_by([&] { network->encode(samples, 0, soon); }), "CANCELLED");
    network->encode(samples, 0, never);
    polls = 0;
    EXPECT_EQ(code_thrown_by([&] { network->decode(start, found, soon); }), "CANCELLED");
    network->decode(start, found, never);
    EXPECT_EQ(found, expected);
}

/// A checkpoint that ends at once on whatever began with `token` before.
MoonshineCheckpoint ending_instead_of(std::int32_t token) {
    MoonshineCheckpoint checkpoint;
    std::vector<float>& embedding = checkpoint.tensors.at("decoder.token_embedding.weight").values;
    constexpr auto kWidth = static_cast<std::ptrdiff_t>(MoonshineCheckpoint::kWidth);
    const auto end = embedding.begin() + kEndToken * kWidth;
    std::transform(embedding.begin() + token * kWidth, embedding.begin() + (token + 1) * kWidth,
                   end, [](float value) { return 2 * value; });
    return checkpoint;
}

TEST_P(Moonshine, AShortClipIsHeardBetweenTwoSilences) {
    const std::vector<float> clip = testing::noise(kShortClipSamples - 1, 8);
    std::vector<float> padded(kSilenceAroundSamples, 0.0F);
    padded.insert(padded.end(), clip.begin(), clip.end());
    padded.resize(padded.size() + kSilenceAroundSamples);
    const auto short_session = model_->create_session({.max_segment_seconds = 0.6});
    const TaskResult found = std::get<TaskResult>(run(*short_session, {request_for(clip)}).front());
    const std::vector<std::int32_t> expected = each_alone({request_for(padded)}).front().tokens;
    ASSERT_LT(found.tokens.size(), expected.size()) << "the limit is by the clip alone";
    EXPECT_TRUE(std::equal(found.tokens.begin(), found.tokens.end(), expected.begin()));
}

TEST_P(Moonshine, SpeechGivesSomeTextWhenBlanksAreSuppressed) {
    TaskRequest request = eight_lengths().front();
    const std::int32_t first = each_alone({request}).front().tokens.front();
    model_ = load_checkpoint(ending_instead_of(first));
    ASSERT_EQ(each_alone({request}).front().text, "");
    ASSERT_EQ(each_alone({request}).front().tokens.size(), 0U);

    request.options["suppressBlank"] = false;
    EXPECT_EQ(each_alone({request}).front().tokens.size(), 0U);
    request.options["suppressBlank"] = true;
    const TaskResult alone = each_alone({request}).front();
    ASSERT_GE(alone.tokens.size(), 1U);
    EXPECT_EQ(alone.tokens.front(), first);

    auto requests = eight_lengths();
    const auto expected = each_alone(requests);
    requests.push_back(request);
    const auto outcomes = run(*session(requests.size()), requests);
    expect_equal(outcomes.back(), alone);
    for (std::size_t i = 0; i < expected.size(); ++i) expect_equal(outcomes[i], expected[i]);

    request.options["suppressBlank"] = std::string("yes");
    EXPECT_EQ(code_thrown_by([&] { session(1)->prepare(request); }), "INVALID_REQUEST");
}

TEST_P(Moonshine, ABadMemberFailsAlone) {
    auto requests = eight_lengths();
    const auto expected = each_alone(requests);
    requests[0] = request_for(std::vector<float>(15 * kSampleRate));
    std::vector<float> broken = testing::noise(16000, 1);
    broken[9000] = std::numeric_limits<float>::quiet_NaN();
    requests[5] = request_for(broken);
    requests[7].audio.start = 1 << 30;
    const auto outcomes = run(*session(8), requests);
    EXPECT_EQ(code_of(outcomes[0]), "INPUT_TOO_LARGE");
    EXPECT_EQ(code_of(outcomes[5]), "INVALID_REQUEST");
    EXPECT_EQ(code_of(outcomes[7]), "INVALID_REQUEST");
    for (const std::size_t i : {1, 2, 3, 4, 6}) expect_equal(outcomes[i], expected[i]);
}

TEST_P(Moonshine, TheLongestSegmentFitsAndOneMoreSampleDoesNot) {
    const auto served = model_->create_session({.max_segment_seconds = 2});
    served->prepare(request_for(std::vector<float>(32000)));
    const TaskRequest longer = request_for(std::vector<float>(32001));
    EXPECT_EQ(code_thrown_by([&] { served->prepare(longer); }), "INPUT_TOO_LARGE");
    auto& offline = dynamic_cast<IOfflineVoiceTaskSession&>(*served);
    EXPECT_EQ(code_thrown_by([&] { (void)offline.run(longer); }), "INPUT_TOO_LARGE");
    const auto whole = testing::noise(32000, 2);
    EXPECT_EQ(offline.run(request_for(whole)).tokens.size(), 20U);
}

TEST_P(Moonshine, ShortSilentAndLoudSegmentsGiveAResult) {
    const auto served = session(1);
    for (const std::size_t samples : {1U, 63U, 894U, 895U, 1278U, 1279U, 16000U}) {
        for (const float scale : {0.0F, 1.0F, 1e30F}) {
            std::vector<float> audio = testing::noise(samples, 9);
            for (float& sample : audio) sample *= scale;
            const auto outcomes = run(*served, {request_for(audio)});
            ASSERT_TRUE(std::holds_alternative<TaskResult>(outcomes[0])) << samples;
            EXPECT_TRUE(std::get<TaskResult>(outcomes[0]).truncated) << samples;
        }
    }
}

TEST_P(Moonshine, MemoryIsAllocatedUpFrontAndGrowsWithTheBatch) {
    const auto one = session(1);
    const auto eight = session(8);
    EXPECT_GT(eight->private_bytes(), one->private_bytes());
    const std::size_t before = eight->private_bytes();
    (void)run(*eight, eight_lengths());
    EXPECT_EQ(eight->private_bytes(), before);
}

TEST_P(Moonshine, SessionsRefuseWhatTheyCannotBe) {
    const auto code = [&](const SessionOptions& options) {
        return code_thrown_by([&] { (void)model_->create_session(options); });
    };
    EXPECT_EQ(code({.mode = RunMode::kStreaming}), "INVALID_REQUEST");
    EXPECT_EQ(code({.threads = 0}), "INVALID_REQUEST");
    EXPECT_EQ(code({.max_batch = 0}), "INVALID_REQUEST");
    EXPECT_EQ(code({.max_segment_seconds = 1000}), "INVALID_REQUEST");
    EXPECT_EQ(code({.max_segment_seconds = -1}), "INVALID_REQUEST");
    EXPECT_EQ(code({.max_segment_seconds = std::numeric_limits<double>::quiet_NaN()}),
              "INVALID_REQUEST");
    TaskRequest request = request_for(std::vector<float>(100));
    request.options["language"] = std::string("de");
    EXPECT_EQ(code_thrown_by([&] { session(1)->prepare(request); }), "INVALID_REQUEST");
}

TEST_P(Moonshine, UnusableCheckpointsAreRefused) {
    const auto code = [&](auto spoil) {
        MoonshineCheckpoint checkpoint;
        spoil(checkpoint);
        return code_thrown_by([&] { (void)load_checkpoint(checkpoint); });
    };
    EXPECT_EQ(code([](MoonshineCheckpoint&) {}), "nothing");
    for (const auto& [name, tensor] : MoonshineCheckpoint().tensors) {
        EXPECT_EQ(code([&](auto& c) { c.tensors.erase(name); }), "MODEL_FILE_INVALID") << name;
        EXPECT_EQ(code([&](auto& c) {
                      auto& spoiled = c.tensors.at(name);
                      spoiled.shape.front() -= 1;
                      spoiled.values.resize(spoiled.values.size() / (spoiled.shape.front() + 1) *
                                            spoiled.shape.front());
                  }),
                  "MODEL_FILE_INVALID")
            << name;
    }
    for (const auto& [key, size] : MoonshineCheckpoint().sizes) {
        for (const std::uint32_t wrong : {0U, size + 1, 0xFFFFFFFFU}) {
            EXPECT_EQ(code([&](auto& c) { c.sizes.at(key) = wrong; }), "MODEL_FILE_INVALID")
                << key << " " << wrong;
        }
        EXPECT_EQ(code([&](auto& c) { c.sizes.erase(key); }), "MODEL_FILE_INVALID") << key;
    }
    EXPECT_EQ(code([](auto& c) { c.pieces.pop_back(); }), "MODEL_FILE_INVALID");
}

TEST(MoonshineLoop, IsAPhraseOverAndOverAtTheEnd) {
    using Tokens = std::vector<std::int32_t>;
    const auto repeated = [](Tokens start, const Tokens& phrase, int times) {
        for (int i = 0; i < times; ++i) start.insert(start.end(), phrase.begin(), phrase.end());
        return start;
    };
    EXPECT_TRUE(ends_in_loop(repeated({}, {7}, 12)));
    EXPECT_FALSE(ends_in_loop(repeated({}, {7}, 11)));
    EXPECT_TRUE(ends_in_loop(repeated({1, 2, 3}, {4, 5, 6, 7, 8, 9}, 3)));
    EXPECT_FALSE(ends_in_loop(repeated({1, 2, 3}, {4, 5, 6, 7, 8, 9}, 2)));
    Tokens cut_off = repeated({}, {4, 5, 6, 7, 8, 9}, 3);
    cut_off.push_back(4);
    EXPECT_TRUE(ends_in_loop(cut_off)) << "wherever in the phrase it stops";
    Tokens gone_on = repeated({}, {4, 5, 6, 7, 8, 9}, 3);
    gone_on.push_back(1);
    EXPECT_FALSE(ends_in_loop(gone_on)) << "it found its way out";
    EXPECT_FALSE(ends_in_loop(repeated({}, {1, 2, 3}, 3))) << "as refrains do";
    EXPECT_FALSE(ends_in_loop({}));
}

INSTANTIATE_TEST_SUITE_P(Kernels, Moonshine, ::testing::Bool(), [](const auto& tested) {
    return std::string(tested.param ? "OurOwn" : "Stock");
});

}  // namespace
}  // namespace wavepool::moonshine
