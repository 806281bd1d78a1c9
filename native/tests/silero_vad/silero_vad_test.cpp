#include "models/silero_vad/silero_vad.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "framework/error.h"
#include "framework/models/model.h"
#include "framework/sessions/session.h"
#include "framework/sessions/session_pool.h"
#include "tests/support/silero_vad_checkpoint.h"

namespace wavepool {
namespace {

using testing::VadCheckpoint;
using testing::VadCheckpointFile;

constexpr std::int64_t kWindow = 512;

const std::shared_ptr<const ILoadedModel>& model() {
    static const std::shared_ptr<const ILoadedModel> loaded = [] {
        const VadCheckpointFile file{VadCheckpoint{}};
        return silero_vad::load(*open_tensor_source(file.path()));
    }();
    return loaded;
}

/// Noise whose loudness and color change with `seed` and over time.
std::shared_ptr<SampleStore> noise(std::uint32_t seed, std::int64_t samples) {
    std::vector<float> values;
    float previous = 0;
    const std::uint32_t character = seed;
    for (std::int64_t i = 0; i < samples; ++i) {
        seed = seed * 1664525U + 1013904223U;
        const float fresh = static_cast<float>(seed >> 8) / 8388608.0F - 1.0F;
        previous = 0.1F * static_cast<float>(character % 8) * previous + fresh;
        values.push_back((i / 3000 % 3 == 0 ? 0.02F : 0.3F) * previous);
    }
    auto store = std::make_shared<SampleStore>();
    store->append(values);
    return store;
}

struct Vad {
    explicit Vad(std::size_t max_batch = 1)
        : session(model()->create_session({.max_batch = max_batch})),
          offline(dynamic_cast<IOfflineVoiceTaskSession*>(session.get())),
          batched(dynamic_cast<IBatchedOfflineVoiceTaskSession*>(session.get())) {}

    std::unique_ptr<IVoiceTaskSession> session;
    IOfflineVoiceTaskSession* offline;
    IBatchedOfflineVoiceTaskSession* batched;
};

TaskRequest request(std::shared_ptr<const SampleStore> store, std::shared_ptr<TaskState> state,
                    std::int64_t start, std::int64_t count) {
    TaskRequest result;
    result.audio = {std::move(store), start, count};
    result.state = std::move(state);
    return result;
}

std::vector<float> whole(const std::shared_ptr<SampleStore>& store) {
    Vad vad;
    return vad.offline->run(request(store, model()->create_state(), 0, store->end())).probabilities;
}

template <typename Action>
ErrorCode code_of(Action action) {
    try {
        action();
    } catch (const Error& error) {
        return error.code();
    }
    ADD_FAILURE() << "nothing was thrown";
    return ErrorCode::kInternal;
}

ErrorCode code_of(const TaskOutcome& outcome) {
    const auto* error = std::get_if<Error>(&outcome);
    if (error != nullptr) return error->code();
    ADD_FAILURE() << "the request succeeded";
    return ErrorCode::kInternal;
}

const std::vector<float>& probabilities(const TaskOutcome& outcome) {
    return std::get<TaskResult>(outcome).probabilities;
}

TEST(SileroVad, GivesOneProbabilityPerStartedWindow) {
    const std::vector<float> result = whole(noise(1, 100 * kWindow + 1));
    ASSERT_EQ(result.size(), 101U);
    EXPECT_GT(std::set<float>(result.begin(), result.end()).size(), 50U);
    EXPECT_TRUE(std::ranges::all_of(result, [](float p) { return p >= 0 && p <= 1; }));
}

TEST(SileroVad, GivesTheSameBitsHoweverTheInputIsCut) {
    const auto store = noise(2, 131 * kWindow + 77);
    const std::vector<float> expected = whole(store);
    Vad vad;
    for (const std::int64_t windows : {1, 2, 3, 7, 24, 25, 48, 64, 131}) {
        const auto state = model()->create_state();
        std::vector<float> joined;
        for (std::int64_t start = 0; start < store->end(); start += windows * kWindow) {
            const std::int64_t count = std::min(windows * kWindow, store->end() - start);
            const TaskResult part = vad.offline->run(request(store, state, start, count));
            joined.insert(joined.end(), part.probabilities.begin(), part.probabilities.end());
        }
        EXPECT_EQ(joined, expected) << windows << " windows at a time";
    }
}

TEST(SileroVad, GivesTheSameBitsInABatchAsAlone) {
    for (const std::size_t size : {2, 3, 5, 8, 13, 60}) {
        Vad vad(size);
        std::vector<TaskRequest> requests;
        for (std::size_t i = 0; i < size; ++i) {
            const auto samples = static_cast<std::int64_t>((i * 37 % 53 + 1) * kWindow - i);
            const auto store = noise(static_cast<std::uint32_t>(i), samples);
            requests.push_back(request(store, model()->create_state(), 0, samples));
        }
        std::vector<int> reported(size, 0);
        const auto outcomes = vad.batched->run_batch(
            requests, [&](std::size_t index, const TaskOutcome&) { ++reported[index]; });
        ASSERT_EQ(outcomes.size(), size);
        EXPECT_EQ(reported, std::vector<int>(size, 1));
        for (std::size_t i = 0; i < size; ++i) {
            const auto store = noise(static_cast<std::uint32_t>(i), requests[i].audio.count);
            EXPECT_EQ(probabilities(outcomes[i]), whole(store)) << i << " of " << size;
        }
    }
}

TEST(SileroVad, SeesAShortLastWindowAsIfZerosFollowed) {
    auto padded = std::make_shared<SampleStore>();
    const auto store = noise(3, 5 * kWindow + 100);
    padded->append(AudioSegment{store, 0, store->end()}.copy());
    padded->append(std::vector<float>(kWindow - 100, 0.0F));
    EXPECT_EQ(whole(store), whole(padded));
}

TEST(SileroVad, KeepsTheStatesOfInterleavedInputsApart) {
    const auto first = noise(4, 40 * kWindow);
    const auto second = noise(5, 40 * kWindow);
    const auto first_state = model()->create_state();
    const auto second_state = model()->create_state();
    Vad vad;
    std::vector<float> first_result;
    std::vector<float> second_result;
    for (std::int64_t start = 0; start < first->end(); start += 4 * kWindow) {
        for (auto& [store, state, result] : {std::tie(first, first_state, first_result),
                                             std::tie(second, second_state, second_result)}) {
            const auto part = vad.offline->run(request(store, state, start, 4 * kWindow));
            result.insert(result.end(), part.probabilities.begin(), part.probabilities.end());
        }
    }
    EXPECT_EQ(first_result, whole(first));
    EXPECT_EQ(second_result, whole(second));
}

TEST(SileroVad, RunsClonesOfAPoolAtTheSameTimeWithTheSameBits) {
    VoiceTaskSessionPool pool(model()->create_session({}), 4);
    std::vector<std::vector<float>> results(pool.size());
    {
        std::vector<std::jthread> threads;
        for (std::size_t slot = 0; slot < pool.size(); ++slot) {
            threads.emplace_back([&, slot] {
                const auto store = noise(static_cast<std::uint32_t>(slot), 60 * kWindow);
                results[slot] = pool.get<IOfflineVoiceTaskSession>(slot)
                                    ->run(request(store, model()->create_state(), 0, store->end()))
                                    .probabilities;
            });
        }
    }
    for (std::size_t slot = 0; slot < pool.size(); ++slot)
        EXPECT_EQ(results[slot], whole(noise(static_cast<std::uint32_t>(slot), 60 * kWindow)));
    EXPECT_EQ(pool.capacity(), kMaxParallelSessions);
}

TEST(SileroVad, LeavesTheStateAsItWasWhenCancelledHalfWay) {
    const auto store = noise(6, 400 * kWindow);
    const auto short_store = noise(7, kWindow);
    const auto state = model()->create_state();
    Vad vad(2);
    const auto head = vad.offline->run(request(store, state, 0, 10 * kWindow));

    // The short mate ends in the first round; by then the long one has done several windows.
    std::vector<TaskRequest> requests{request(store, state, 10 * kWindow, 390 * kWindow),
                                      request(short_store, model()->create_state(), 0, kWindow)};
    requests[0].cancel = CancelToken::create();
    const auto outcomes =
        vad.batched->run_batch(requests, [&](std::size_t index, const TaskOutcome&) {
            if (index == 1) requests[0].cancel.cancel();
        });
    EXPECT_EQ(code_of(outcomes[0]), ErrorCode::kCancelled);
    EXPECT_EQ(probabilities(outcomes[1]), whole(short_store));

    const auto tail = vad.offline->run(request(store, state, 10 * kWindow, 390 * kWindow));
    std::vector<float> joined = head.probabilities;
    joined.insert(joined.end(), tail.probabilities.begin(), tail.probabilities.end());
    EXPECT_EQ(joined, whole(store));
}

TEST(SileroVad, ComputesNothingForARequestCancelledBefore) {
    const auto store = noise(8, 3 * kWindow);
    auto cancelled = request(store, model()->create_state(), 0, store->end());
    cancelled.cancel = CancelToken::create();
    cancelled.cancel.cancel();
    Vad vad;
    EXPECT_EQ(code_of([&] { (void)vad.offline->run(cancelled); }), ErrorCode::kCancelled);
    cancelled.cancel = {};
    EXPECT_EQ(vad.offline->run(cancelled).probabilities, whole(store));
}

TEST(SileroVad, FailsOneMemberForBadSamplesAndNotItsMates) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                            -std::numeric_limits<float>::infinity(), 1e30F}) {
        auto spoiled = std::make_shared<SampleStore>();
        std::vector<float> samples(200 * kWindow, 0.1F);
        samples[100 * kWindow + 3] = bad;
        spoiled->append(samples);
        const auto state = model()->create_state();
        const auto good = noise(9, 150 * kWindow);
        Vad vad(2);
        const std::vector<TaskRequest> requests{
            request(spoiled, state, 0, spoiled->end()),
            request(good, model()->create_state(), 0, good->end())};
        const auto outcomes = vad.batched->run_batch(requests);
        EXPECT_EQ(code_of(outcomes[0]), ErrorCode::kInputUndecodable);
        EXPECT_EQ(probabilities(outcomes[1]), whole(good));
        // Still at the beginning of its input.
        EXPECT_NO_THROW((void)vad.offline->run(request(spoiled, state, 0, kWindow)));
    }
}

TEST(SileroVad, FailsARequestWhoseSamplesAreReleasedUnderIt) {
    const auto store = noise(10, 400 * kWindow);
    const auto mate = noise(11, kWindow);
    Vad vad(2);
    const std::vector<TaskRequest> requests{
        request(store, model()->create_state(), 0, store->end()),
        request(mate, model()->create_state(), 0, kWindow)};
    const auto outcomes = vad.batched->run_batch(
        requests, [&](std::size_t, const TaskOutcome&) { store->release_before(store->end()); });
    EXPECT_EQ(code_of(outcomes[0]), ErrorCode::kInvalidRequest);
    EXPECT_EQ(probabilities(outcomes[1]), whole(mate));
}

TEST(SileroVad, RefusesTheSecondMemberWithTheSameState) {
    const auto store = noise(12, 4 * kWindow);
    const auto state = model()->create_state();
    Vad vad(2);
    const std::vector<TaskRequest> requests{request(store, state, 0, store->end()),
                                            request(store, state, 0, store->end())};
    const auto outcomes = vad.batched->run_batch(requests);
    EXPECT_EQ(probabilities(outcomes[0]), whole(store));
    EXPECT_EQ(code_of(outcomes[1]), ErrorCode::kInvalidRequest);
}

TEST(SileroVad, HasFreedTheStateWhenItReportsTheResult) {
    const auto store = noise(13, 4 * kWindow);
    const auto state = model()->create_state();
    Vad vad;
    Vad other;
    std::vector<float> joined;
    const std::vector<TaskRequest> requests{request(store, state, 0, 2 * kWindow)};
    (void)vad.batched->run_batch(requests, [&](std::size_t, const TaskOutcome& outcome) {
        joined = probabilities(outcome);
        const auto next = other.offline->run(request(store, state, 2 * kWindow, 2 * kWindow));
        joined.insert(joined.end(), next.probabilities.begin(), next.probabilities.end());
    });
    EXPECT_EQ(joined, whole(store));
}

TEST(SileroVad, RefusesRequestsThatBreakTheRules) {
    const auto store = noise(14, 20 * kWindow);
    const auto fresh = [] { return model()->create_state(); };
    class OtherState : public TaskState {};
    const auto begun = fresh();
    const auto ended = fresh();
    Vad vad;
    (void)vad.offline->run(request(store, begun, kWindow, kWindow));
    (void)vad.offline->run(request(store, ended, 0, kWindow + 1));
    auto with_option = request(store, fresh(), 0, kWindow);
    with_option.options["threshold"] = 0.5;

    const std::vector<std::pair<TaskRequest, ErrorCode>> cases{
        {request(nullptr, fresh(), 0, kWindow), ErrorCode::kInvalidRequest},
        {request(store, fresh(), 0, 0), ErrorCode::kInputEmpty},
        {request(store, fresh(), 0, -1), ErrorCode::kInvalidRequest},
        {request(store, fresh(), -1, kWindow), ErrorCode::kInvalidRequest},
        {request(store, fresh(), 0, store->end() + 1), ErrorCode::kInvalidRequest},
        {request(store, fresh(), store->end() + 1, 1), ErrorCode::kInvalidRequest},
        {request(store, fresh(), 1, std::numeric_limits<std::int64_t>::max()),
         ErrorCode::kInvalidRequest},
        {request(store, nullptr, 0, kWindow), ErrorCode::kInvalidRequest},
        {request(store, std::make_shared<OtherState>(), 0, kWindow), ErrorCode::kInvalidRequest},
        {request(store, begun, kWindow, kWindow), ErrorCode::kInvalidRequest},
        {request(store, begun, 3 * kWindow, kWindow), ErrorCode::kInvalidRequest},
        {request(store, ended, kWindow + 1, kWindow), ErrorCode::kInvalidRequest},
        {with_option, ErrorCode::kInvalidRequest},
    };
    for (std::size_t i = 0; i < cases.size(); ++i) {
        const auto& [bad, code] = cases[i];
        EXPECT_EQ(code_of([&] { vad.session->prepare(bad); }), code) << "case " << i;
        EXPECT_EQ(code_of([&] { (void)vad.offline->run(bad); }), code) << "case " << i;
    }
    EXPECT_NO_THROW(vad.session->prepare(request(store, begun, 2 * kWindow, kWindow)));
    EXPECT_NO_THROW((void)vad.offline->run(request(store, begun, 2 * kWindow, kWindow)));
}

TEST(SileroVad, FailsABatchThatIsTooLargeAsAWhole) {
    const auto store = noise(15, kWindow);
    Vad vad(2);
    std::vector<TaskRequest> requests;
    for (int i = 0; i < 3; ++i)
        requests.push_back(request(store, model()->create_state(), 0, kWindow));
    EXPECT_EQ(code_of([&] { (void)vad.batched->run_batch(requests); }), ErrorCode::kInvalidRequest);
}

TEST(SileroVad, RefusesSessionsThatItCannotRun) {
    for (const SessionOptions& options :
         {SessionOptions{.threads = 0}, SessionOptions{.threads = 65},
          SessionOptions{.max_batch = 0}, SessionOptions{.max_batch = 257},
          SessionOptions{.mode = RunMode::kStreaming, .threads = 0}}) {
        EXPECT_EQ(code_of([&] { (void)model()->create_session(options); }),
                  ErrorCode::kInvalidRequest);
    }
}

TEST(SileroVad, KeepsItsMemoryWhateverTheLengthOfARequest) {
    const auto store = noise(16, 1000 * kWindow);
    Vad vad;
    const std::size_t before = vad.session->private_bytes();
    (void)vad.offline->run(request(store, model()->create_state(), 0, store->end()));
    EXPECT_EQ(vad.session->private_bytes(), before);
    EXPECT_LT(before, std::size_t{1} << 20);
    EXPECT_GT(Vad(64).session->private_bytes(), before);
}

TEST(SileroVad, SaysWhatItIs) {
    const ModelInfo& info = model()->info();
    EXPECT_EQ(info.family, "silero-vad");
    EXPECT_EQ(info.task, TaskKind::kVad);
    EXPECT_EQ(info.name, "silero-vad");
    EXPECT_EQ(info.window_samples, kWindow);
    EXPECT_TRUE(info.native_batch && info.stateful);
    EXPECT_EQ(info.max_segment_seconds, 0);
    EXPECT_GT(info.weight_bytes, std::size_t{500'000});
}

}  // namespace
}  // namespace wavepool
