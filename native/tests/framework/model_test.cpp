#include "framework/models/model.h"

#include <gtest/gtest.h>

#include <array>

#include "framework/build_info.h"
#include "framework/sessions/session_pool.h"
#include "tests/support/error_code.h"
#include "tests/support/fake_family.h"
#include "tests/support/faults.h"
#include "tests/support/gguf_builder.h"

namespace wavepool {
namespace {

using testing::code_thrown_by;

class LoadModel : public ::testing::Test {
  protected:
    void TearDown() override { fake::clear_faults(); }
    std::string code_of(const std::string& bytes,
                        std::span<const Family> families = fake::families()) {
        return code_thrown_by(
            [&] { (void)load_model(folder_.write("model.gguf", bytes), families); });
    }
    testing::TemporaryFolder folder_;
};

TEST_F(LoadModel, ChoosesTheFamilyByTheArchitectureInTheFile) {
    const auto asr =
        load_model(folder_.write("a.gguf", testing::fake_model_bytes("fake")), fake::families());
    const auto vad = load_model(folder_.write("v.gguf", testing::fake_model_bytes("fake-vad")),
                                fake::families());
    EXPECT_EQ(asr->info().task, TaskKind::kAsr);
    EXPECT_EQ(asr->create_state(), nullptr);
    EXPECT_EQ(vad->info().task, TaskKind::kVad);
    EXPECT_NE(vad->create_state(), nullptr);
}

TEST_F(LoadModel, RefusesAnUnknownArchitectureAndAFileWithoutOne) {
    EXPECT_EQ(code_of(testing::fake_model_bytes("whistle")), "MODEL_FILE_INVALID");
    EXPECT_EQ(code_of(testing::GgufBuilder().f32("a", {1}, {1}).bytes()), "MODEL_FILE_INVALID");
    EXPECT_EQ(code_thrown_by([] { (void)load_model("/nothing.gguf", fake::families()); }),
              "INPUT_NOT_FOUND");
}

TEST_F(LoadModel, AFamilyThatFailsIsReportedUnderACodeAndARetrySucceeds) {
    fake::set_fault("load", true);
    EXPECT_EQ(code_of(testing::fake_model_bytes()), "MODEL_LOAD_FAILED");
    fake::clear_faults();
    EXPECT_EQ(code_of(testing::fake_model_bytes()), "nothing");

    using Loaded = std::shared_ptr<const ILoadedModel>;
    const std::array broken{
        Family{"fake", TaskKind::kAsr,
               [](const TensorSource&) -> Loaded { throw std::runtime_error("why"); }, nullptr}};
    EXPECT_EQ(code_of(testing::fake_model_bytes(), broken), "MODEL_LOAD_FAILED");
    const std::array exhausted{Family{"fake", TaskKind::kAsr,
                                      [](const TensorSource&) -> Loaded { throw std::bad_alloc(); },
                                      nullptr}};
    EXPECT_EQ(code_of(testing::fake_model_bytes(), exhausted), "INSUFFICIENT_MEMORY");
    const std::array null{
        Family{"fake", TaskKind::kAsr, [](const TensorSource&) { return Loaded(); }, nullptr}};
    EXPECT_EQ(code_of(testing::fake_model_bytes(), null), "MODEL_LOAD_FAILED");
}

TEST_F(LoadModel, SessionsOutliveTheModelThatMadeThem) {
    auto model = load_model(folder_.write("a.gguf", testing::fake_model_bytes()), fake::families());
    VoiceTaskSessionPool pool(model->create_session({}), 4);
    model.reset();
    EXPECT_EQ(pool.at(3).family(), "fake");
}

TEST(BuildInfo, HasAnIdentityAndNamesItsParts) {
    EXPECT_EQ(build_info().identity.size(), 64U);
    EXPECT_EQ(build_info().identity.find_first_not_of("0123456789abcdef"), std::string_view::npos);
    EXPECT_FALSE(build_info().ggml.empty());
    EXPECT_FALSE(build_info().compiler.empty());
    EXPECT_EQ(build_info().backend, "cpu");
}

}  // namespace
}  // namespace wavepool
