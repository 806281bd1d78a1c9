#include "framework/sessions/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>
#include <memory>
#include <thread>

#include "framework/worker_threads.h"
#include "tests/support/error_code.h"

namespace wavepool {
namespace {

using testing::code_thrown_by;

TEST(SlotExecutor, RefusesASecondTaskWhileOneRuns) {
    SlotExecutor executor;
    std::promise<void> gate;
    std::promise<void> free;
    executor.start([&] { gate.get_future().wait(); }, [&] { free.set_value(); });
    EXPECT_TRUE(executor.busy());
    EXPECT_EQ(code_thrown_by([&] { executor.start([] {}); }), "SLOT_BUSY");
    gate.set_value();
    free.get_future().wait();
    EXPECT_FALSE(executor.busy());
}

TEST(SlotExecutor, TakesTheNextTaskAsSoonAsItTellsThatTheFirstHasFinished) {
    SlotExecutor executor;
    std::promise<std::thread::id> second;
    std::thread::id first;
    executor.start([&] { first = std::this_thread::get_id(); },
                   [&] { executor.start([&] { second.set_value(std::this_thread::get_id()); }); });
    EXPECT_EQ(second.get_future().get(), first);
    EXPECT_NE(first, std::this_thread::get_id());
}

TEST(SlotExecutor, ClosingWaitsForTheRunningTask) {
    std::atomic<bool> ended = false;
    std::promise<void> started;
    {
        SlotExecutor executor;
        executor.start([&] {
            started.set_value();
            ended = true;
        });
        started.get_future().wait();
    }
    EXPECT_TRUE(ended);
}

TEST(SlotExecutor, ATaskThatWasStartedRunsEvenWhenClosingFollowsAtOnce) {
    for (int round = 0; round < 200; ++round) {
        std::atomic<bool> ran = false;
        {
            SlotExecutor executor;
            executor.start([&] { ran = true; });
        }
        ASSERT_TRUE(ran);
    }
}

TEST(WorkerThreads, RunEveryJobOnceOnTheirOwnThreads) {
    constexpr int kJobs = 500;
    std::latch done(kJobs);
    std::atomic<int> elsewhere = 0;
    WorkerThreads threads(2);
    const auto here = std::this_thread::get_id();
    for (int i = 0; i < kJobs; ++i) {
        threads.post([&] {
            if (std::this_thread::get_id() != here) ++elsewhere;
            done.count_down();
        });
    }
    done.wait();
    EXPECT_EQ(elsewhere, kJobs);
}

TEST(WorkerThreads, ClosingDropsWhatHasNotStartedAndWaitsForWhatHas) {
    std::promise<void> started;
    std::promise<void> gate;
    std::atomic<bool> first = false;
    std::atomic<int> later = 0;
    {
        WorkerThreads threads(1);
        threads.post([&] {
            started.set_value();
            gate.get_future().wait();
            first = true;
        });
        started.get_future().wait();
        // Released only by the thread that the queued job belongs to: it is destroyed undone.
        const auto token = std::shared_ptr<void>(nullptr, [&](void*) { gate.set_value(); });
        threads.post([&later, token] { ++later; });
    }
    EXPECT_TRUE(first);
    EXPECT_EQ(later, 0);
}

}  // namespace
}  // namespace wavepool
