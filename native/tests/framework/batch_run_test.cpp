#include "framework/sessions/batch_run.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <thread>

#include "tests/support/error_code.h"
#include "tests/support/fake_family.h"
#include "tests/support/faults.h"
#include "tests/support/gguf_builder.h"

namespace wavepool {
namespace {

using testing::code_thrown_by;

class BatchRun : public ::testing::TestWithParam<bool> {
  protected:
    void SetUp() override {
        store_->append(testing::noise(10 * kSampleRate, 1));
        const auto file =
            folder_.write("fake.gguf", testing::fake_model_bytes("fake", 4, GetParam(), 2));
        session_ = load_model(file, fake::families())->create_session({.max_batch = 4});
    }
    void TearDown() override { fake::clear_faults(); }

    TaskRequest request(int second, TaskOptions options = {}) const {
        return {{store_, second * kSampleRate, kSampleRate},
                nullptr,
                std::move(options),
                CancelToken::create()};
    }

    /// The outcome of each item: its text, or the name of its error.
    std::vector<std::string> run(std::span<const TaskRequest> requests) {
        std::map<std::size_t, std::string> ends;
        run_items(*session_, requests, [&](std::size_t index, const TaskOutcome& outcome) {
            const auto* error = std::get_if<Error>(&outcome);
            const bool fresh =
                ends.emplace(index, error != nullptr ? error_code_name(error->code())
                                                     : std::get<TaskResult>(outcome).text)
                    .second;
            EXPECT_TRUE(fresh) << "item " << index << " was reported twice";
        });
        std::vector<std::string> in_order;
        for (auto& [index, end] : ends) in_order.push_back(end);
        EXPECT_EQ(in_order.size(), requests.size());
        return in_order;
    }

    std::string alone(int second) { return run(std::vector{request(second)}).front(); }

    testing::TemporaryFolder folder_;
    std::shared_ptr<SampleStore> store_ = std::make_shared<SampleStore>();
    std::unique_ptr<IVoiceTaskSession> session_;
};

INSTANTIATE_TEST_SUITE_P(WithAndWithoutNativeBatch, BatchRun, ::testing::Bool());

TEST_P(BatchRun, ABadItemFailsAloneAndItsMatesEqualWhatTheyAreAlone) {
    std::vector<TaskRequest> requests{request(0), request(1), request(2, {{"fault", "run"}}),
                                      request(3)};
    requests[1].audio.count = 3 * kSampleRate;
    EXPECT_EQ(run(requests),
              (std::vector<std::string>{alone(0), "INPUT_TOO_LARGE", "INTERNAL", alone(3)}));
}

TEST_P(BatchRun, AnItemCancelledBeforehandTakesNoPart) {
    const std::vector requests{request(0), request(1, {{"fault", "abort"}}), request(2)};
    requests[1].cancel.cancel();
    EXPECT_EQ(run(requests), (std::vector<std::string>{alone(0), "CANCELLED", alone(2)}));
}

TEST_P(BatchRun, AHangingItemEndsWhenItIsCancelledAndItsMatesAreUnchanged) {
    const std::vector requests{request(0), request(1, {{"fault", "hang"}}), request(2)};
    std::jthread canceller([&] { requests[1].cancel.cancel(); });
    EXPECT_EQ(run(requests), (std::vector<std::string>{alone(0), "CANCELLED", alone(2)}));
}

TEST_P(BatchRun, NothingRunsWhenEveryItemIsRefused) {
    fake::set_fault("prepare", true);
    fake::set_fault("abort", true);
    EXPECT_EQ(run(std::vector{request(0), request(1)}),
              (std::vector<std::string>{"INVALID_REQUEST", "INVALID_REQUEST"}));
}

class NativeBatchRun : public BatchRun {};
INSTANTIATE_TEST_SUITE_P(WithNativeBatch, NativeBatchRun, ::testing::Values(true));

TEST_P(NativeBatchRun, ReportsEachItemInTheOrderInWhichItEnds) {
    const std::vector requests{request(0, {{"rank", 2.0}}), request(1, {{"rank", 1.0}}),
                               request(2, {{"rank", 0.0}})};
    std::vector<std::size_t> order;
    run_items(*session_, requests,
              [&](std::size_t index, const TaskOutcome&) { order.push_back(index); });
    EXPECT_EQ(order, (std::vector<std::size_t>{2, 1, 0}));
}

TEST_P(NativeBatchRun, TooManyItemsOrALostOutcomeFailTheBatchAsAWhole) {
    const auto ignore = [](std::size_t, const TaskOutcome&) {};
    const std::vector five(5, request(0));
    EXPECT_EQ(code_thrown_by([&] { run_items(*session_, five, ignore); }), "INVALID_REQUEST");
    fake::set_fault("lose-item", true);
    const std::vector two(2, request(0));
    EXPECT_EQ(code_thrown_by([&] { run_items(*session_, two, ignore); }), "INTERNAL");
}

TEST(BatchRunMode, ASessionWithoutOfflineInterfaceRunsNoItems) {
    const testing::TemporaryFolder folder;
    const auto file = folder.write("fake.gguf", testing::fake_model_bytes());
    const auto session =
        load_model(file, fake::families())->create_session({.mode = RunMode::kStreaming});
    EXPECT_EQ(code_thrown_by([&] {
                  run_items(*session, std::vector<TaskRequest>(1), [](std::size_t, TaskOutcome) {});
              }),
              "INVALID_REQUEST");
}

}  // namespace
}  // namespace wavepool
