#include "tests/fake_family.h"

#include <gtest/gtest.h>

#include <thread>

#include "framework/session_pool.h"
#include "tests/error_code.h"
#include "tests/faults.h"
#include "tests/gguf_builder.h"

namespace wavepool {
namespace {

using testing::code_thrown_by;

class FakeFamily : public ::testing::Test {
  protected:
    void TearDown() override { fake::clear_faults(); }
    std::shared_ptr<const ILoadedModel> load() {
        return load_model(folder_.write("fake.gguf", testing::fake_model_bytes()),
                          fake::families());
    }
    testing::TemporaryFolder folder_;
};

TEST_F(FakeFamily, AFaultyCloneFailsThePoolAndLeavesNothingBehind) {
    auto model = load();
    for (const auto* fault :
         {"clone", "second-clone", "null-clone", "clone-family", "clone-task", "clone-mode"}) {
        fake::set_fault(fault, true);
        EXPECT_EQ(code_thrown_by([&] { VoiceTaskSessionPool(model->create_session({}), 4); }),
                  "MODEL_LOAD_FAILED")
            << fault;
        fake::clear_faults();
        EXPECT_EQ(fake::live_objects().sessions, 0) << fault;
    }
    const VoiceTaskSessionPool pool(model->create_session({}), 4);
    EXPECT_EQ(fake::live_objects().sessions, 4);
    EXPECT_EQ(fake::live_objects().weights, 1);
}

TEST_F(FakeFamily, AModelWithoutAPrimaryIsRefused) {
    const auto model = load();
    fake::set_fault("null-primary", true);
    EXPECT_EQ(code_thrown_by([&] { VoiceTaskSessionPool(model->create_session({}), 1); }),
              "INVALID_REQUEST");
}

TEST_F(FakeFamily, AGateHoldsWhoeverComesToItUntilItIsOpened) {
    fake::set_fault("load-gate", true);
    std::shared_ptr<const ILoadedModel> model;
    std::jthread loading([&] { model = load(); });
    EXPECT_EQ(fake::live_objects().weights, 0);
    fake::set_fault("load-gate", false);
    loading.join();
    ASSERT_NE(model, nullptr);
    fake::set_fault("destroy-gate", true);
    std::jthread ending([session = model->create_session({})]() mutable { session.reset(); });
    EXPECT_EQ(fake::live_objects().sessions, 1);
    fake::set_fault("destroy-gate", false);
    ending.join();
    EXPECT_EQ(fake::live_objects().sessions, 0);
    model.reset();
    EXPECT_EQ(fake::live_objects().weights, 0);
}

}  // namespace
}  // namespace wavepool
