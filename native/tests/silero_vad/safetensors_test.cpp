// Silero's release comes as Safetensors: the same tensors as in the GGUF, and nothing else.
#include <gtest/gtest.h>

#include "framework/models/model.h"
#include "models/families.h"
#include "tests/support/error_code.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/safetensors_builder.h"
#include "tests/support/silero_vad_checkpoint.h"

namespace wavepool {
namespace {

using testing::code_thrown_by;
using testing::SafetensorsBuilder;
using testing::VadCheckpoint;

SafetensorsBuilder safetensors_of(const VadCheckpoint& checkpoint) {
    SafetensorsBuilder builder;
    for (const auto& [name, tensor] : checkpoint.tensors) {
        builder.f32(name, tensor.shape, tensor.values);
    }
    return builder;
}

std::vector<float> probabilities(const ILoadedModel& model, const std::vector<float>& samples) {
    const auto session = model.create_session({.max_batch = 4});
    auto store = std::make_shared<SampleStore>();
    store->append(samples);
    const TaskRequest request{
        {store, 0, static_cast<std::int64_t>(samples.size())}, model.create_state(), {}, {}};
    return dynamic_cast<IOfflineVoiceTaskSession&>(*session).run(request).probabilities;
}

class SileroSafetensors : public ::testing::Test {
  protected:
    std::shared_ptr<const ILoadedModel> load(const SafetensorsBuilder& builder) {
        return load_model(folder_.write("silero_vad_16k.safetensors", builder.bytes()), families());
    }
    testing::TemporaryFolder folder_;
    VadCheckpoint checkpoint_;
};

TEST_F(SileroSafetensors, GivesExactlyTheProbabilitiesOfAGgufOfTheSameWeights) {
    const testing::VadCheckpointFile gguf(checkpoint_);
    const auto expected_model = load_model(gguf.path(), families());
    const auto model = load(safetensors_of(checkpoint_));
    EXPECT_EQ(model->info().family, "silero-vad");
    EXPECT_EQ(model->info().name, "silero-vad");
    EXPECT_EQ(model->info().weight_bytes, expected_model->info().weight_bytes);
    const auto samples = testing::noise(200 * 512, 5);
    const auto expected = probabilities(*expected_model, samples);
    ASSERT_EQ(expected.size(), 200U);
    EXPECT_NE(expected.front(), expected.back());
    EXPECT_EQ(probabilities(*model, samples), expected);
}

TEST_F(SileroSafetensors, IsRecognizedByItsMetadataOrElseByItsTensors) {
    auto named = safetensors_of(checkpoint_);
    named.metadata("general.architecture", "moonshine");
    EXPECT_EQ(code_thrown_by([&] { (void)load(named); }), "MODEL_FILE_INVALID")
        << "the metadata decide where they say something";
    auto framework = safetensors_of(checkpoint_);
    framework.metadata("format", "pt");
    EXPECT_EQ(load(framework)->info().family, "silero-vad");
    VadCheckpoint other;
    other.tensors.erase("final_conv.bias");
    EXPECT_EQ(code_thrown_by([&] { (void)load(safetensors_of(other)); }), "MODEL_FILE_INVALID");
}

TEST_F(SileroSafetensors, RefusesTensorsOfAnotherShapeOrType) {
    VadCheckpoint narrow;
    narrow.tensors.at("conv1.bias") = {{127}, std::vector<float>(127, 0.0F)};
    EXPECT_EQ(code_thrown_by([&] { (void)load(safetensors_of(narrow)); }), "MODEL_FILE_INVALID");
    checkpoint_.tensors.erase("conv1.bias");
    auto integers = safetensors_of(checkpoint_);
    integers.tensor("conv1.bias", {128}, "I32", std::string(512, '\0'));
    EXPECT_EQ(code_thrown_by([&] { (void)load(integers); }), "MODEL_FILE_INVALID");
}

TEST_F(SileroSafetensors, IsPlannedLikeTheGguf) {
    const testing::VadCheckpointFile gguf(checkpoint_);
    const auto file = folder_.write("s", safetensors_of(checkpoint_).bytes());
    const ModelPlan plan = plan_model(file, {.max_batch = 8}, families());
    const ModelPlan expected = plan_model(gguf.path(), {.max_batch = 8}, families());
    EXPECT_EQ(plan.info.weight_bytes, expected.info.weight_bytes);
    EXPECT_EQ(plan.session_bytes, expected.session_bytes);
    EXPECT_EQ(plan.capacity, expected.capacity);
}

}  // namespace
}  // namespace wavepool
