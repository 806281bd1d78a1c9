#include "tests/support/fake_family.h"

#include <gtest/gtest.h>

#include <thread>

#include "framework/sessions/session_pool.h"
#include "tests/support/error_code.h"
#include "tests/support/faults.h"
#include "tests/support/gguf_builder.h"

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

TEST_F(FakeFamily, SpeaksTheLanguagesOfItsFile) {
    const std::string bytes = testing::GgufBuilder()
                                  .string("general.architecture", "fake")
                                  .string("general.name", "polyglot")
                                  .string("fake.languages", "en,de")
                                  .uint32("fake.capacity", 1)
                                  .uint32("fake.native_batch", 0)
                                  .float32("fake.max_segment_seconds", 0)
                                  .f32("fake.weight", {4}, {1, 2, 3, 4})
                                  .bytes();
    const auto model = load_model(folder_.write("polyglot.gguf", bytes), fake::families());
    EXPECT_EQ(model->info().languages, (std::vector<std::string>{"en", "de"}));
    const auto session = model->create_session({});
    auto& offline = dynamic_cast<IOfflineVoiceTaskSession&>(*session);
    const auto store = std::make_shared<SampleStore>();
    store->append(testing::noise(16000, 1));
    TaskRequest request{.audio = {store, 0, 16000}, .state = nullptr, .options = {}, .cancel = {}};
    const TaskResult plain = offline.run(request);
    EXPECT_TRUE(plain.language == "en" || plain.language == "de");
    ASSERT_EQ(plain.pieces.size(), 2U);
    EXPECT_EQ(plain.pieces[0].text + " " + plain.pieces[1].text, plain.text);
    EXPECT_TRUE(plain.pieces[0].words.empty());

    request.options = {{"language", std::string("de")},
                       {"translate", true},
                       {"words", true},
                       {"prompt", std::string("echo Ada")}};
    const TaskResult asked = offline.run(request);
    EXPECT_EQ(asked.language, "de");
    EXPECT_EQ(asked.text, "translated " + plain.text + " [de Ada]");
    EXPECT_EQ(asked.pieces[1].words.size(), 5U);
    EXPECT_DOUBLE_EQ(asked.pieces[1].words.back().end, 1);

    request.options = {{"language", std::string("fr")}};
    EXPECT_EQ(code_thrown_by([&] { (void)offline.run(request); }), "INVALID_REQUEST");
}

}  // namespace
}  // namespace wavepool
