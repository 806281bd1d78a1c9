// What every family promises, whatever its model: run over the fakes and a small Whisper always,
// over the other real families when WAVEPOOL_TEST_MODELS names a folder with their GGUF files.
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <thread>

#include "framework/sessions/session_pool.h"
#include "framework/sessions/stream_run.h"
#include "framework/tensors/tensor_source.h"
#include "models/families.h"
#include "tests/support/error_code.h"
#include "tests/support/fake_family.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/whisper_checkpoint.h"

namespace wavepool {
namespace {

using testing::code_thrown_by;

constexpr std::size_t kMaxBatch = 4;
/// About a second, and whole windows for any vad.
constexpr std::int64_t kSegmentSamples = 32 * 512;

std::optional<std::filesystem::path> model_of(std::string_view architecture) {
    const char* folder = std::getenv("WAVEPOOL_TEST_MODELS");
    if (folder == nullptr) return std::nullopt;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
        if (entry.path().extension() != ".gguf") continue;
        if (open_tensor_source(entry.path())->string("general.architecture") == architecture) {
            return entry.path();
        }
    }
    return std::nullopt;
}

class AdapterContract : public ::testing::TestWithParam<std::string> {
  protected:
    void SetUp() override {
        const std::string& family = GetParam();
        if (family.starts_with("fake")) {
            const auto file = folder_.write("fake.gguf", testing::fake_model_bytes(family));
            model_ = load_model(file, fake::families());
        } else if (family == "whisper") {
            const auto file = folder_.write("model.bin", testing::WhisperCheckpoint().bytes());
            model_ = load_model(file, families());
        } else if (const auto file = model_of(family)) {
            model_ = load_model(*file, families());
        } else {
            GTEST_SKIP() << "NOT TESTED: no GGUF file of " << family
                         << " in the folder WAVEPOOL_TEST_MODELS";
        }
        store_->append(testing::noise(6 * kSegmentSamples, 7));
        session_ = model_->create_session({.max_batch = kMaxBatch});
    }

    TaskRequest request(std::int64_t start, std::int64_t count = kSegmentSamples) const {
        return {{store_, start, count}, model_->create_state(), {}, CancelToken::create()};
    }
    /// Segments of different lengths, as batches have them.
    std::vector<TaskRequest> mixed() const {
        return {request(0), request(kSegmentSamples, 2 * kSegmentSamples),
                request(3 * kSegmentSamples), request(100, kSegmentSamples + 512)};
    }
    static TaskResult alone(IVoiceTaskSession& session, const TaskRequest& request) {
        session.prepare(request);
        return dynamic_cast<IOfflineVoiceTaskSession&>(session).run(request);
    }
    static void expect_equal(const TaskResult& left, const TaskResult& right) {
        EXPECT_EQ(left.text, right.text);
        EXPECT_EQ(left.tokens, right.tokens);
        EXPECT_EQ(left.truncated, right.truncated);
        EXPECT_EQ(left.probabilities, right.probabilities);
    }
    std::size_t capacity() const {
        const auto* factory = dynamic_cast<IParallelVoiceTaskSessionFactory*>(session_.get());
        return factory == nullptr ? 1 : factory->parallel_session_capacity();
    }

    /// Null for a family that does not stream.
    std::unique_ptr<IVoiceTaskSession> streaming() const {
        try {
            return model_->create_session({.mode = RunMode::kStreaming});
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::kInvalidRequest) << error.what();
            return nullptr;
        }
    }
    std::vector<float> samples(std::int64_t start, std::int64_t count) const {
        return AudioSegment{store_, start, count}.copy();
    }
    static void add(TaskResult& sum, const TaskResult& part) {
        sum.text += part.text;
        sum.tokens.insert(sum.tokens.end(), part.tokens.begin(), part.tokens.end());
        sum.probabilities.insert(sum.probabilities.end(), part.probabilities.begin(),
                                 part.probabilities.end());
    }
    /// The parts of a stream over these samples, put together.
    static TaskResult streamed(IVoiceTaskSession& session, std::span<const float> samples,
                               std::size_t chunk) {
        StreamRun stream(session, {});
        TaskResult sum;
        while (!samples.empty()) {
            const auto next = samples.first(std::min(chunk, samples.size()));
            if (const auto part = stream.push(next)) add(sum, *part);
            samples = samples.subspan(next.size());
        }
        add(sum, stream.finish());
        return sum;
    }

    testing::TemporaryFolder folder_;
    std::shared_ptr<const ILoadedModel> model_;
    std::shared_ptr<SampleStore> store_ = std::make_shared<SampleStore>();
    std::unique_ptr<IVoiceTaskSession> session_;
};

INSTANTIATE_TEST_SUITE_P(Families, AdapterContract,
                         ::testing::Values("fake", "fake-vad", "moonshine", "silero-vad",
                                           "whisper"),
                         [](const auto& test) {
                             std::string name = test.param;
                             std::erase(name, '-');
                             return name;
                         });

TEST_P(AdapterContract, ASessionReportsItsModelsFamilyAndTask) {
    EXPECT_EQ(session_->family(), GetParam());
    EXPECT_EQ(session_->family(), model_->info().family);
    EXPECT_EQ(session_->task_kind(), model_->info().task);
    EXPECT_EQ(session_->run_mode(), RunMode::kOffline);
    EXPECT_GT(model_->info().weight_bytes, 0U);
    const bool batched = dynamic_cast<IBatchedOfflineVoiceTaskSession*>(session_.get()) != nullptr;
    EXPECT_EQ(batched, model_->info().native_batch);
    EXPECT_EQ(model_->create_state() != nullptr, model_->info().stateful);
}

TEST_P(AdapterContract, ClonesAreOfTheSameKindUpToTheAdvertisedCapacity) {
    const std::size_t count = std::min(capacity(), std::size_t{4});
    VoiceTaskSessionPool pool(std::move(session_), count);
    EXPECT_EQ(pool.size(), count);
}

TEST_P(AdapterContract, AnItemInABatchEqualsTheItemAloneBitForBit) {
    auto* batched = dynamic_cast<IBatchedOfflineVoiceTaskSession*>(session_.get());
    if (batched == nullptr) GTEST_SKIP() << GetParam() << " has no native batch";
    const auto fresh = model_->create_session({.max_batch = kMaxBatch});
    std::vector<bool> reported(kMaxBatch, false);
    const auto outcomes = batched->run_batch(
        mixed(), [&](std::size_t index, const TaskOutcome&) { reported.at(index) = true; });
    EXPECT_EQ(reported, std::vector<bool>(kMaxBatch, true));
    ASSERT_EQ(outcomes.size(), kMaxBatch);
    const auto requests = mixed();
    for (std::size_t i = 0; i < kMaxBatch; ++i) {
        ASSERT_TRUE(std::holds_alternative<TaskResult>(outcomes[i])) << i;
        expect_equal(std::get<TaskResult>(outcomes[i]), alone(*fresh, requests[i]));
    }
}

TEST_P(AdapterContract, ACancelledMemberEndsCancelledAndLeavesTheOthersUnchanged) {
    auto* batched = dynamic_cast<IBatchedOfflineVoiceTaskSession*>(session_.get());
    if (batched == nullptr) GTEST_SKIP() << GetParam() << " has no native batch";
    const auto untouched = batched->run_batch(mixed());
    const auto requests = mixed();
    requests[1].cancel.cancel();
    const auto outcomes = batched->run_batch(requests);
    ASSERT_TRUE(std::holds_alternative<Error>(outcomes[1]));
    EXPECT_EQ(std::get<Error>(outcomes[1]).code(), ErrorCode::kCancelled);
    for (const std::size_t i : {0, 2, 3}) {
        ASSERT_TRUE(std::holds_alternative<TaskResult>(outcomes[i])) << i;
        expect_equal(std::get<TaskResult>(outcomes[i]), std::get<TaskResult>(untouched[i]));
    }
}

TEST_P(AdapterContract, ACancelledRunThrowsAndTheSessionServesTheNextRequest) {
    const TaskResult before = alone(*session_, request(0));
    const TaskRequest cancelled = request(kSegmentSamples);
    cancelled.cancel.cancel();
    EXPECT_EQ(code_thrown_by([&] { (void)alone(*session_, cancelled); }), "CANCELLED");
    expect_equal(alone(*session_, request(0)), before);
}

TEST_P(AdapterContract, PrepareRefusesRangesThatTheStoreDoesNotHold) {
    const auto code = [&](const TaskRequest& request) {
        return code_thrown_by([&] { session_->prepare(request); });
    };
    EXPECT_EQ(code(request(-512)), "INVALID_REQUEST");
    EXPECT_EQ(code(request(5 * kSegmentSamples, 2 * kSegmentSamples)), "INVALID_REQUEST");
    EXPECT_EQ(code(request(0, -512)), "INVALID_REQUEST");
    EXPECT_EQ(code(request(0, 0)), "INPUT_EMPTY");
    TaskRequest without_audio = request(0);
    without_audio.audio.store = nullptr;
    EXPECT_EQ(code(without_audio), "INVALID_REQUEST");
    store_->release_before(kSegmentSamples);
    EXPECT_EQ(code(request(0)), "INVALID_REQUEST");
    EXPECT_EQ(code(request(kSegmentSamples)), "nothing");
}

TEST_P(AdapterContract, TooManyItemsFailTheBatchAsAWhole) {
    auto* batched = dynamic_cast<IBatchedOfflineVoiceTaskSession*>(session_.get());
    if (batched == nullptr) GTEST_SKIP() << GetParam() << " has no native batch";
    EXPECT_EQ(batched->max_batch(), kMaxBatch);
    std::vector<TaskRequest> requests = mixed();
    requests.push_back(request(0));
    EXPECT_EQ(code_thrown_by([&] { (void)batched->run_batch(requests); }), "INVALID_REQUEST");
}

TEST_P(AdapterContract, SessionsThatRunAtOnceGiveWhatOneGives) {
    if (capacity() < 2) GTEST_SKIP() << GetParam() << " supports one session";
    VoiceTaskSessionPool pool(std::move(session_), std::min(capacity(), std::size_t{4}));
    std::vector<TaskResult> expected;
    for (const TaskRequest& request : mixed()) expected.push_back(alone(pool.at(0), request));
    std::vector<std::vector<TaskResult>> found(pool.size());
    {
        std::vector<std::jthread> threads;
        for (std::size_t slot = 0; slot < pool.size(); ++slot) {
            threads.emplace_back([&, slot] {
                for (const TaskRequest& request : mixed()) {
                    found[slot].push_back(alone(pool.at(slot), request));
                }
            });
        }
    }
    for (const auto& results : found) {
        ASSERT_EQ(results.size(), expected.size());
        for (std::size_t i = 0; i < results.size(); ++i) expect_equal(results[i], expected[i]);
    }
}

TEST_P(AdapterContract, AStateCarriesFromOneRequestToTheNext) {
    if (!model_->info().stateful) GTEST_SKIP() << GetParam() << " keeps no state";
    const TaskResult whole = alone(*session_, request(0, 2 * kSegmentSamples));
    const TaskRequest first = request(0);
    TaskRequest second = request(kSegmentSamples);
    second.state = first.state;
    TaskResult parts = alone(*session_, first);
    const TaskResult rest = alone(*session_, second);
    parts.probabilities.insert(parts.probabilities.end(), rest.probabilities.begin(),
                               rest.probabilities.end());
    expect_equal(parts, whole);
}

TEST_P(AdapterContract, AStreamGivesWhatTheWholeInputGivesWhateverItsChunks) {
    const auto session = streaming();
    if (!session) GTEST_SKIP() << GetParam() << " does not stream";
    EXPECT_EQ(session->run_mode(), RunMode::kStreaming);
    EXPECT_EQ(session->family(), GetParam());
    EXPECT_EQ(session->task_kind(), model_->info().task);
    const TaskResult whole = alone(*session_, request(0, 2 * kSegmentSamples));
    const std::vector<float> input = samples(0, 2 * kSegmentSamples);
    for (const std::size_t chunk : {1, 160, 511, 512, 513, 1600, 20000, 1 << 20}) {
        SCOPED_TRACE(chunk);
        expect_equal(streamed(*session, input, chunk), whole);
    }
}

TEST_P(AdapterContract, AStreamMayEndWithAnyNumberOfSamplesAlsoWithNone) {
    const auto session = streaming();
    if (!session) GTEST_SKIP() << GetParam() << " does not stream";
    expect_equal(streamed(*session, {}, 1), TaskResult{});
    const std::vector<float> input = samples(0, kSegmentSamples + 77);
    expect_equal(streamed(*session, input, 300), streamed(*session, input, 4096));
}

// P7
TEST_P(AdapterContract, AStreamAfterAnAbandonedOneStartsFromNothing) {
    const auto session = streaming();
    if (!session) GTEST_SKIP() << GetParam() << " does not stream";
    const std::vector<float> input = samples(0, kSegmentSamples);
    const TaskResult fresh = streamed(*session, input, 1000);
    {
        StreamRun abandoned(*session, {});
        (void)abandoned.push(samples(kSegmentSamples, 5000));
        abandoned.reset();
        EXPECT_EQ(code_thrown_by([&] { (void)abandoned.push(input); }), "INVALID_REQUEST");
        expect_equal(streamed(*session, input, 1000), fresh);
    }
    {
        StreamRun dropped(*session, {});
        (void)dropped.push(samples(kSegmentSamples, 5000));
    }
    expect_equal(streamed(*session, input, 1000), fresh);
}

TEST_P(AdapterContract, ACancelledStreamEndsAndTheSessionServesTheNext) {
    const auto session = streaming();
    if (!session) GTEST_SKIP() << GetParam() << " does not stream";
    const std::vector<float> input = samples(0, kSegmentSamples);
    const TaskResult fresh = streamed(*session, input, 1000);
    TaskRequest cancelled;
    cancelled.cancel = CancelToken::create();
    StreamRun stream(*session, cancelled);
    (void)stream.push(samples(kSegmentSamples, 5000));
    cancelled.cancel.cancel();
    EXPECT_EQ(code_thrown_by([&] { (void)stream.push(input); }), "CANCELLED");
    EXPECT_EQ(code_thrown_by([&] { (void)stream.finish(); }), "INVALID_REQUEST");
    expect_equal(streamed(*session, input, 1000), fresh);
}

// C1, for what applies to audio that comes in
TEST_P(AdapterContract, AStreamingSessionRefusesCallsOutOfTheirOrder) {
    const auto session = streaming();
    if (!session) GTEST_SKIP() << GetParam() << " does not stream";
    auto& stream = dynamic_cast<IStreamingVoiceTaskSession&>(*session);
    const std::vector<float> input = samples(0, kSegmentSamples);
    const auto push = [&] { (void)stream.process_audio_chunk(input); };
    const auto finish = [&] { (void)stream.finish_stream(); };
    EXPECT_EQ(code_thrown_by(push), "INVALID_REQUEST");
    EXPECT_EQ(code_thrown_by(finish), "INVALID_REQUEST");
    TaskRequest with_option;
    with_option.options["no such option"] = true;
    if (!GetParam().starts_with("fake")) {
        EXPECT_EQ(code_thrown_by([&] { stream.start_stream(with_option); }), "INVALID_REQUEST");
    }
    stream.start_stream({});
    EXPECT_EQ(code_thrown_by([&] { stream.start_stream({}); }), "INVALID_REQUEST");
    push();
    finish();
    EXPECT_EQ(code_thrown_by(finish), "INVALID_REQUEST");
    stream.reset();
    stream.reset();
    expect_equal(streamed(*session, input, 1000), streamed(*session, input, 1 << 20));
}

TEST_P(AdapterContract, AnOfflineSessionCannotStartAStream) {
    EXPECT_EQ(code_thrown_by([&] { const StreamRun stream(*session_, {}); }), "INVALID_REQUEST");
}

// P6
TEST_P(AdapterContract, StreamsThatRunAtOnceGiveWhatEachGivesAlone) {
    auto primary = streaming();
    if (!primary) GTEST_SKIP() << GetParam() << " does not stream";
    VoiceTaskSessionPool pool(std::move(primary), std::min(capacity(), std::size_t{4}));
    std::vector<TaskResult> found(pool.size());
    {
        std::vector<std::jthread> threads;
        for (std::size_t slot = 0; slot < pool.size(); ++slot) {
            threads.emplace_back([&, slot] {
                const auto start = static_cast<std::int64_t>(slot) * 1000;
                found[slot] =
                    streamed(pool.at(slot), samples(start, kSegmentSamples), 700 + slot * 100);
            });
        }
    }
    const auto fresh = streaming();
    for (std::size_t slot = 0; slot < pool.size(); ++slot) {
        const auto start = static_cast<std::int64_t>(slot) * 1000;
        expect_equal(found[slot], streamed(*fresh, samples(start, kSegmentSamples), 512));
    }
}

}  // namespace
}  // namespace wavepool
