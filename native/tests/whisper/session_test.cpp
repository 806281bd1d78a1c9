// The sessions of a Whisper model, on a checkpoint of chance whose text depends on what it hears.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "framework/sessions/session_pool.h"
#include "models/families.h"
#include "tests/support/error_code.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/whisper_checkpoint.h"

namespace wavepool::whisper {
namespace {

using testing::code_thrown_by;

constexpr std::int64_t kRate = 16000;

class WhisperSession : public ::testing::Test {
  protected:
    void SetUp() override { load(false); }

    void load(bool multilingual) {
        model_ =
            load_model(folder_.write("model.bin", testing::WhisperCheckpoint(multilingual).bytes()),
                       families());
        session_ = model_->create_session({.max_batch = 8});
    }

    /// A tone whose height follows from `seed`, with noise.
    static TaskRequest request(double seconds, std::uint32_t seed, TaskOptions options = {}) {
        const auto count = static_cast<std::size_t>(seconds * kRate);
        std::vector<float> samples = testing::noise(count, seed);
        for (std::size_t i = 0; i < count; ++i) {
            samples[i] = 0.1F * samples[i] +
                         0.4F * std::sin(static_cast<float>(i) * 0.02F * static_cast<float>(seed));
        }
        return of(samples, std::move(options));
    }
    static TaskRequest of(const std::vector<float>& samples, TaskOptions options = {}) {
        auto store = std::make_shared<SampleStore>();
        store->append(samples);
        return {{store, 0, static_cast<std::int64_t>(samples.size())},
                nullptr,
                std::move(options),
                CancelToken::create()};
    }
    static TaskResult alone(IVoiceTaskSession& session, const TaskRequest& request) {
        session.prepare(request);
        return dynamic_cast<IOfflineVoiceTaskSession&>(session).run(request);
    }
    TaskResult alone(const TaskRequest& request) const { return alone(*session_, request); }
    TaskResult fresh(const TaskRequest& request) const {
        return alone(*model_->create_session({}), request);
    }
    std::string refusal(const TaskOptions& options) const {
        return code_thrown_by([&] { session_->prepare(request(1, 3, options)); });
    }
    /// Bit for bit, with every number.
    static void expect_equal(const TaskResult& left, const TaskResult& right) {
        EXPECT_EQ(left.text, right.text);
        EXPECT_EQ(left.tokens, right.tokens);
        EXPECT_EQ(left.language, right.language);
        EXPECT_EQ(left.truncated, right.truncated);
        ASSERT_EQ(left.pieces.size(), right.pieces.size());
        for (std::size_t i = 0; i < left.pieces.size(); ++i) {
            const TimedPiece& a = left.pieces[i];
            const TimedPiece& b = right.pieces[i];
            EXPECT_EQ(a.start, b.start);
            EXPECT_EQ(a.end, b.end);
            EXPECT_EQ(a.average_log_probability, b.average_log_probability);
            EXPECT_EQ(a.no_speech_probability, b.no_speech_probability);
            EXPECT_EQ(a.temperature, b.temperature);
            ASSERT_EQ(a.words.size(), b.words.size());
            for (std::size_t word = 0; word < a.words.size(); ++word) {
                EXPECT_EQ(a.words[word].text, b.words[word].text);
                EXPECT_EQ(a.words[word].start, b.words[word].start);
                EXPECT_EQ(a.words[word].probability, b.words[word].probability);
            }
        }
    }

    testing::TemporaryFolder folder_;
    std::shared_ptr<const ILoadedModel> model_;
    std::unique_ptr<IVoiceTaskSession> session_;
};

TEST_F(WhisperSession, HearsItsRequestAndNothingElse) {
    // Short after long: padded rows of the caches would keep the long one's.
    const TaskRequest a = request(2, 3);
    const TaskRequest b = request(12, 5, {{"words", true}, {"prompt", " w1 w2 w3"}});
    const TaskRequest c = request(22, 7);
    const TaskResult first = alone(a);
    const TaskResult second = alone(b);
    EXPECT_NE(first.text, second.text);
    EXPECT_FALSE(first.text.empty());
    expect_equal(second, fresh(b));
    static_cast<void>(alone(c));
    expect_equal(alone(a), first);
    expect_equal(first, fresh(a));
    expect_equal(alone(b), second);
}

TEST_F(WhisperSession, DrawsFromOneSeed) {
    // A loop at every temperature of 0: what follows is by chance.
    const TaskRequest silence = of(std::vector<float>(2 * kRate));
    const TaskRequest tone = request(3, 11);
    const TaskResult first = alone(silence);
    static_cast<void>(alone(tone));
    static_cast<void>(alone(silence));
    expect_equal(alone(silence), first);
    expect_equal(fresh(silence), first);
}

TEST_F(WhisperSession, AnswersAListAsEachAlone) {
    std::vector<TaskRequest> requests{request(1, 3), request(9, 4, {{"words", true}}),
                                      request(0.01, 5), request(3, 6)};
    requests.push_back(request(1, 7));
    requests.back().options["beams"] = 5.0;
    std::vector<std::size_t> order;
    const auto outcomes = dynamic_cast<IBatchedOfflineVoiceTaskSession&>(*session_).run_batch(
        requests, [&](std::size_t index, const TaskOutcome&) { order.push_back(index); });
    ASSERT_EQ(outcomes.size(), requests.size());
    std::ranges::sort(order);
    EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2, 3, 4}));
    for (std::size_t i = 0; i < 4; ++i) {
        expect_equal(std::get<TaskResult>(outcomes[i]), fresh(requests[i]));
    }
    EXPECT_EQ(std::get<Error>(outcomes[4]).code(), ErrorCode::kInvalidRequest);
}

TEST_F(WhisperSession, TakesItsOptionsAndNoOthers) {
    EXPECT_EQ(refusal({{"suppressBlank", true}, {"language", "en"}, {"words", false}}), "nothing");
    EXPECT_EQ(refusal({{"language", "de"}}), "INVALID_REQUEST");
    EXPECT_EQ(refusal({{"language", true}}), "INVALID_REQUEST");
    EXPECT_EQ(refusal({{"translate", true}}), "INVALID_REQUEST");
    EXPECT_EQ(refusal({{"words", 1.0}}), "INVALID_REQUEST");
    EXPECT_EQ(refusal({{"prompt", std::string(20000, 'x')}}), "INVALID_REQUEST");
    EXPECT_EQ(refusal({{"unknown", 1.0}}), "INVALID_REQUEST");
    load(true);
    EXPECT_EQ(refusal({{"language", "de"}, {"translate", true}}), "nothing");
    EXPECT_EQ(refusal({{"language", "yue"}}), "INVALID_REQUEST");  // large-v3 and later
    EXPECT_EQ(refusal({{"language", "german"}}), "INVALID_REQUEST");
}

TEST_F(WhisperSession, FindsOrTakesTheLanguage) {
    load(true);
    const TaskResult given = alone(request(2, 3, {{"language", "de"}}));
    EXPECT_EQ(given.language, "de");
    const TaskResult found = alone(request(2, 3));
    EXPECT_FALSE(found.language.empty());
    expect_equal(found, fresh(request(2, 3)));
    EXPECT_NO_THROW(static_cast<void>(
        alone(request(2, 3, {{"language", "fr"}, {"translate", true}, {"words", true}}))));
}

TEST_F(WhisperSession, PutsWordsAndPiecesWithinTheAudio) {
    for (const double seconds : {0.02, 0.7, 4.0, 21.0}) {
        const TaskResult result =
            alone(request(seconds, 9, {{"words", true}, {"suppressBlank", true}}));
        EXPECT_FALSE(result.text.empty());
        double time = 0;
        for (const TimedPiece& piece : result.pieces) {
            EXPECT_GE(piece.start, 0);
            EXPECT_LE(piece.end, seconds + 1e-9);
            EXPECT_FALSE(piece.words.empty());
            time = std::max(time, piece.start);
            for (const TimedWord& word : piece.words) {
                EXPECT_GE(word.start, time);
                EXPECT_GE(word.end, word.start);
                EXPECT_LE(word.end, piece.end);
                EXPECT_GE(word.probability, 0);
                EXPECT_LE(word.probability, 1);
                time = word.start;
            }
        }
    }
}

TEST_F(WhisperSession, RefusesAudioThatItCannotHear) {
    EXPECT_EQ(code_thrown_by([&] { session_->prepare(request(23.5, 1)); }), "INPUT_TOO_LARGE");
    EXPECT_EQ(code_thrown_by([&] { session_->prepare(of({})); }), "INPUT_EMPTY");
    std::vector<float> bad(kRate, 0.1F);
    bad[5] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(code_thrown_by([&] { static_cast<void>(alone(of(bad))); }), "INVALID_REQUEST");
    EXPECT_NO_THROW(static_cast<void>(alone(request(1, 3))));
}

TEST_F(WhisperSession, RefusesOptionsOfSessionsThatItDoesNotHave) {
    for (const SessionOptions& options :
         {SessionOptions{.mode = RunMode::kStreaming}, SessionOptions{.threads = 0},
          SessionOptions{.max_batch = 65}, SessionOptions{.max_segment_seconds = 30}}) {
        EXPECT_EQ(code_thrown_by([&] { static_cast<void>(model_->create_session(options)); }),
                  "INVALID_REQUEST");
    }
}

TEST_F(WhisperSession, IsCancelledWhileItRunsAndGoesOnAfterwards) {
    const TaskRequest whole = request(20, 3);
    const TaskResult expected = alone(whole);
    const TaskRequest before = request(20, 3);
    before.cancel.cancel();
    EXPECT_EQ(code_thrown_by([&] { static_cast<void>(alone(before)); }), "CANCELLED");
    expect_equal(alone(whole), expected);

    const TaskRequest during = request(20, 3);
    std::atomic<bool> started = false;
    std::string code;
    std::thread runner([&] {
        started = true;
        started.notify_one();
        code = code_thrown_by([&] { static_cast<void>(alone(during)); });
    });
    started.wait(false);
    during.cancel.cancel();
    runner.join();
    EXPECT_EQ(code, "CANCELLED");
    expect_equal(alone(whole), expected);

    std::vector<TaskRequest> requests{request(1, 3), request(1, 4), request(1, 5)};
    requests[1].cancel.cancel();
    const auto outcomes =
        dynamic_cast<IBatchedOfflineVoiceTaskSession&>(*session_).run_batch(requests);
    EXPECT_EQ(std::get<Error>(outcomes[1]).code(), ErrorCode::kCancelled);
    expect_equal(std::get<TaskResult>(outcomes[2]), fresh(requests[2]));
}

TEST_F(WhisperSession, SharesItsModelWithOthersThatRunAtOnce) {
    VoiceTaskSessionPool pool(model_->create_session({.threads = 2}), 4);
    EXPECT_EQ(pool.capacity(), 16U);
    std::vector<TaskResult> expected;
    for (std::uint32_t seed = 3; seed < 7; ++seed) {
        expected.push_back(alone(pool.at(0), request(1 + seed, seed, {{"words", seed % 2 == 0}})));
    }
    std::vector<std::thread> threads;
    std::vector<TaskResult> found(4);
    for (std::uint32_t slot = 0; slot < 4; ++slot) {
        threads.emplace_back([&, slot] {
            const std::uint32_t seed = slot + 3;
            for (int round = 0; round < 2; ++round) {
                found[slot] =
                    alone(pool.at(slot), request(1 + seed, seed, {{"words", seed % 2 == 0}}));
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (std::size_t slot = 0; slot < 4; ++slot) expect_equal(found[slot], expected[slot]);
}

}  // namespace
}  // namespace wavepool::whisper
