#include "framework/sessions/session_pool.h"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

#include "tests/support/error_code.h"

namespace wavepool {
namespace {

using testing::code_thrown_by;

/// What a session of these tests reports, and the log of its construction and destruction.
struct Kind {
    std::string family = "toy";
    TaskKind task = TaskKind::kAsr;
    RunMode mode = RunMode::kOffline;
};

class Plain : public IVoiceTaskSession, public IOfflineVoiceTaskSession {
  public:
    explicit Plain(Kind kind = {}, std::vector<std::string>* log = nullptr,
                   std::string name = "clone")
        : kind_(std::move(kind)), log_(log), name_(std::move(name)) {}
    ~Plain() override {
        if (log_ != nullptr) log_->push_back("~" + name_);
    }

    [[nodiscard]] std::string_view family() const noexcept override { return kind_.family; }
    [[nodiscard]] TaskKind task_kind() const noexcept override { return kind_.task; }
    [[nodiscard]] RunMode run_mode() const noexcept override { return kind_.mode; }
    void prepare(const TaskRequest&) override {}
    [[nodiscard]] std::size_t private_bytes() const noexcept override { return 0; }
    [[nodiscard]] TaskResult run(const TaskRequest&) override { return {}; }

  private:
    Kind kind_;
    std::vector<std::string>* log_;
    std::string name_;
};

class Batched : public Plain, public IBatchedOfflineVoiceTaskSession {
  public:
    using Plain::Plain;
    [[nodiscard]] std::size_t max_batch() const noexcept override { return 2; }
    [[nodiscard]] std::vector<TaskOutcome> run_batch(std::span<const TaskRequest> requests,
                                                     const OnResult&) override {
        return std::vector<TaskOutcome>(requests.size());
    }
};

using CloneFactory = std::function<std::unique_ptr<IVoiceTaskSession>(int nth)>;

class Primary final : public Batched, public IParallelVoiceTaskSessionFactory {
  public:
    Primary(std::size_t capacity, CloneFactory factory, std::vector<std::string>* log = nullptr)
        : Batched({}, log, "primary"), capacity_(capacity), factory_(std::move(factory)) {}

    [[nodiscard]] std::size_t parallel_session_capacity() const noexcept override {
        return capacity_;
    }
    [[nodiscard]] std::unique_ptr<IVoiceTaskSession> create_parallel_session() const override {
        return factory_(++calls_);
    }

  private:
    std::size_t capacity_;
    CloneFactory factory_;
    mutable int calls_ = 0;
};

std::string code_of(std::unique_ptr<IVoiceTaskSession> primary, std::size_t count) {
    return code_thrown_by([&] { const VoiceTaskSessionPool pool(std::move(primary), count); });
}

// P1
TEST(SessionPool, ASessionWithoutAFactoryHasCapacityOne) {
    VoiceTaskSessionPool pool(std::make_unique<Plain>(), 1);
    EXPECT_EQ(pool.capacity(), 1U);
    EXPECT_EQ(pool.size(), 1U);
    EXPECT_EQ(code_of(std::make_unique<Plain>(), 2), "SLOTS_UNSUPPORTED");
}

// P2
TEST(SessionPool, RefusesANullPrimaryCountsOutsideOneToSixteenAndSlotsBeyondTheLast) {
    EXPECT_EQ(code_of(nullptr, 1), "INVALID_REQUEST");
    EXPECT_EQ(code_of(std::make_unique<Plain>(), 0), "INVALID_REQUEST");
    EXPECT_EQ(code_of(std::make_unique<Plain>(), 17), "INVALID_REQUEST");
    VoiceTaskSessionPool pool(std::make_unique<Plain>(), 1);
    EXPECT_THROW((void)pool.at(1), std::out_of_range);
    EXPECT_EQ(pool.get<IBatchedOfflineVoiceTaskSession>(0), nullptr);
    EXPECT_NE(pool.get<IOfflineVoiceTaskSession>(0), nullptr);
}

TEST(SessionPool, RefusesAPrimaryWithoutTheInterfaceOfItsMode) {
    EXPECT_EQ(code_of(std::make_unique<Plain>(Kind{.mode = RunMode::kStreaming}), 1),
              "INVALID_REQUEST");
}

// P3
TEST(SessionPool, AWrongSecondCloneFailsTheConstructionAndLeavesNothingBehind) {
    const std::vector<std::pair<std::string, std::function<std::unique_ptr<IVoiceTaskSession>()>>>
        wrong{
            {"null", [] { return nullptr; }},
            {"family", [] { return std::make_unique<Batched>(Kind{.family = "other"}); }},
            {"task", [] { return std::make_unique<Batched>(Kind{.task = TaskKind::kVad}); }},
            {"mode", [] { return std::make_unique<Batched>(Kind{.mode = RunMode::kStreaming}); }},
            {"no batch interface", [] { return std::make_unique<Plain>(); }},
            {"throws",
             []() -> std::unique_ptr<IVoiceTaskSession> {
                 throw Error(ErrorCode::kModelLoadFailed, "no memory for a clone");
             }},
        };
    for (const auto& [what, make] : wrong) {
        std::vector<std::string> log;
        int calls = 0;
        const auto factory = [&](int nth) -> std::unique_ptr<IVoiceTaskSession> {
            ++calls;
            if (nth == 2) return make();
            return std::make_unique<Batched>(Kind{}, &log);
        };
        EXPECT_EQ(code_of(std::make_unique<Primary>(4, factory, &log), 4), "MODEL_LOAD_FAILED")
            << what;
        EXPECT_EQ(calls, 2) << what;
        EXPECT_EQ(log, (std::vector<std::string>{"~clone", "~primary"})) << what;
    }
    VoiceTaskSessionPool retry(
        std::make_unique<Primary>(4, [](int) { return std::make_unique<Batched>(); }), 4);
    EXPECT_EQ(retry.size(), 4U);
}

TEST(SessionPool, WhatAFactoryThrowsPassesThroughAndClonesDieBeforeThePrimary) {
    std::vector<std::string> log;
    const auto failing = [](int) -> std::unique_ptr<IVoiceTaskSession> { throw std::bad_alloc(); };
    EXPECT_THROW(VoiceTaskSessionPool(std::make_unique<Primary>(4, failing), 2), std::bad_alloc);
    {
        const VoiceTaskSessionPool pool(
            std::make_unique<Primary>(
                4, [&](int) { return std::make_unique<Batched>(Kind{}, &log); }, &log),
            3);
    }
    EXPECT_EQ(log, (std::vector<std::string>{"~clone", "~clone", "~primary"}));
}

// P4
TEST(SessionPool, MoreSlotsThanAdvertisedAreRefusedBeforeAnyCloneExists) {
    for (const std::size_t capacity : {0, 1, 2}) {
        int calls = 0;
        const auto factory = [&](int) {
            ++calls;
            return std::make_unique<Batched>();
        };
        EXPECT_EQ(code_of(std::make_unique<Primary>(capacity, factory), 3), "SLOTS_UNSUPPORTED");
        EXPECT_EQ(calls, 0);
    }
}

TEST(SessionPool, NeverHasMoreThanSixteenSlotsWhateverIsAdvertised) {
    VoiceTaskSessionPool pool(
        std::make_unique<Primary>(1000, [](int) { return std::make_unique<Batched>(); }), 16);
    EXPECT_EQ(pool.capacity(), kMaxParallelSessions);
}

// P8
TEST(SessionPool, AFallbackFactoryMakesSessionsUpToTheAuditedCapacity) {
    VoiceTaskSessionPool pool(
        std::make_unique<Plain>(), 2, [] { return std::make_unique<Plain>(); }, 2);
    EXPECT_EQ(pool.capacity(), 2U);
    EXPECT_NE(&pool.at(0), &pool.at(1));
}

// P9
TEST(SessionPool, TheAnswerOfTheAdapterIsFinalAndTheFallbackIsNotAsked) {
    int fallback_calls = 0;
    const auto fallback = [&] {
        ++fallback_calls;
        return std::make_unique<Batched>();
    };
    auto primary = std::make_unique<Primary>(1, [](int) { return std::make_unique<Batched>(); });
    EXPECT_EQ(code_thrown_by(
                  [&] { const VoiceTaskSessionPool pool(std::move(primary), 2, fallback, 16); }),
              "SLOTS_UNSUPPORTED");
    EXPECT_EQ(fallback_calls, 0);
}

// P10
TEST(SessionPool, AFallbackIsHeldToTheSameRules) {
    using Fallback = VoiceTaskSessionPool::FallbackFactory;
    const auto code = [](std::size_t count, const Fallback& fallback,
                         std::optional<std::size_t> audited) {
        return code_thrown_by([&] {
            const VoiceTaskSessionPool pool(std::make_unique<Batched>(), count, fallback, audited);
        });
    };
    const Fallback good = [] { return std::make_unique<Batched>(); };
    EXPECT_EQ(code(2, [] { return nullptr; }, 2), "MODEL_LOAD_FAILED");
    EXPECT_EQ(code(2, [] { return std::make_unique<Plain>(); }, 2), "MODEL_LOAD_FAILED");
    EXPECT_EQ(code(3, good, 2), "SLOTS_UNSUPPORTED");
    EXPECT_EQ(code(2, good, std::nullopt), "SLOTS_UNSUPPORTED");
    EXPECT_EQ(code(2, {}, 16), "SLOTS_UNSUPPORTED");
    EXPECT_EQ(code(2, good, 2), "nothing");
}

}  // namespace
}  // namespace wavepool
