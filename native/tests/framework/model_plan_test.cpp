// What a plan foretells against what loading and making a session then take: over checkpoints made
// here always, over the real ones when WAVEPOOL_TEST_MODELS names a folder with their GGUF files.
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <optional>

#include "framework/sessions/session_pool.h"
#include "models/families.h"
#include "tests/support/error_code.h"
#include "tests/support/fake_family.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/moonshine_checkpoint.h"
#include "tests/support/silero_vad_checkpoint.h"

namespace wavepool {
namespace {

using testing::code_thrown_by;

void expect_foretold(const std::filesystem::path& file, const SessionOptions& options,
                     std::span<const Family> families) {
    const ModelPlan plan = plan_model(file, options, families);
    const auto model = load_model(file, families);
    const auto session = model->create_session(options);
    const ModelInfo& info = model->info();
    EXPECT_EQ(plan.info.family, info.family);
    EXPECT_EQ(plan.info.task, info.task);
    EXPECT_EQ(plan.info.name, info.name);
    EXPECT_EQ(plan.info.weight_bytes, info.weight_bytes);
    EXPECT_EQ(plan.info.native_batch, info.native_batch);
    EXPECT_EQ(plan.info.max_segment_seconds, info.max_segment_seconds);
    EXPECT_EQ(plan.info.window_samples, info.window_samples);
    EXPECT_EQ(plan.info.stateful, info.stateful);
    EXPECT_EQ(
        plan.capacity,
        dynamic_cast<IParallelVoiceTaskSessionFactory&>(*session).parallel_session_capacity());
    const auto actual = static_cast<double>(session->private_bytes());
    EXPECT_NEAR(static_cast<double>(plan.session_bytes), actual, 0.1 * actual)
        << "batch " << options.max_batch << ", " << options.max_segment_seconds << " s";
}

void expect_foretold_for_every_batch(const std::filesystem::path& file,
                                     std::span<const Family> families) {
    for (const std::size_t batch : {1, 8, 16}) {
        for (const int threads : {1, 2}) {
            expect_foretold(file, {.threads = threads, .max_batch = batch}, families);
        }
    }
}

TEST(ModelPlan, ForetellsTheFakeFamilies) {
    const testing::TemporaryFolder folder;
    for (const char* family : {"fake", "fake-vad"}) {
        expect_foretold_for_every_batch(
            folder.write("fake.gguf", testing::fake_model_bytes(family)), fake::families());
    }
}

TEST(ModelPlan, ForetellsMoonshineForEveryBatchAndLength) {
    const testing::TemporaryFolder folder;
    const auto file = folder.write("m.gguf", testing::MoonshineCheckpoint().bytes());
    expect_foretold_for_every_batch(file, families());
    for (const double seconds : {0.5, 15.0, 20.0}) {
        expect_foretold(file, {.max_batch = 8, .max_segment_seconds = seconds}, families());
    }
}

TEST(ModelPlan, ForetellsSileroForEveryBatch) {
    const testing::VadCheckpointFile file{testing::VadCheckpoint{}};
    expect_foretold_for_every_batch(file.path(), families());
    expect_foretold(file.path(), {.max_batch = 256}, families());
    expect_foretold(file.path(), {.mode = RunMode::kStreaming}, families());
}

TEST(ModelPlan, ForetellsTheRealModels) {
    const char* folder = std::getenv("WAVEPOOL_TEST_MODELS");
    if (folder == nullptr) {
        GTEST_SKIP() << "NOT TESTED: set WAVEPOOL_TEST_MODELS to a folder with the GGUF files";
    }
    int found = 0;
    for (const char* name : {"moonshine-tiny.gguf", "silero-vad.gguf"}) {
        const auto file = std::filesystem::path(folder) / name;
        if (!std::filesystem::exists(file)) continue;
        ++found;
        expect_foretold_for_every_batch(file, families());
        // This is also the case of the memory figures: batches of 8, segments of 15 s.
        expect_foretold(file, {.max_batch = 8, .max_segment_seconds = 15}, families());
    }
    EXPECT_GT(found, 0) << folder;
}

TEST(ModelPlan, ReadsNoWeights) {
    const testing::TemporaryFolder folder;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    testing::MoonshineCheckpoint moonshine;
    for (auto& [name, tensor] : moonshine.tensors) tensor.values.front() = nan;
    testing::VadCheckpoint silero;
    for (auto& [name, tensor] : silero.tensors) tensor.values.front() = nan;
    const testing::VadCheckpointFile silero_file(silero);
    for (const auto& file : {folder.write("m.gguf", moonshine.bytes()), silero_file.path()}) {
        EXPECT_EQ(code_thrown_by([&] { (void)load_model(file, families()); }),
                  "MODEL_FILE_INVALID");
        EXPECT_EQ(code_thrown_by([&] { (void)plan_model(file, {}, families()); }), "nothing");
    }
}

TEST(ModelPlan, RefusesFilesAndOptionsThatLoadingWouldRefuse) {
    const testing::TemporaryFolder folder;
    const auto code = [](const std::filesystem::path& file, const SessionOptions& options) {
        return code_thrown_by([&] { (void)plan_model(file, options, families()); });
    };
    testing::MoonshineCheckpoint lacking;
    lacking.tensors.erase("decoder.norm.weight");
    testing::VadCheckpoint misshapen;
    misshapen.tensors.at("conv2.bias").shape = {1, 64};
    const testing::VadCheckpointFile misshapen_file(misshapen);
    EXPECT_EQ(code(folder.write("l.gguf", lacking.bytes()), {}), "MODEL_FILE_INVALID");
    EXPECT_EQ(code(misshapen_file.path(), {}), "MODEL_FILE_INVALID");
    EXPECT_EQ(code(folder.write("t.gguf", "GGUF"), {}), "MODEL_FILE_INVALID");
    EXPECT_EQ(code(folder.path() / "nothing.gguf", {}), "INPUT_NOT_FOUND");

    const auto moonshine = folder.write("m.gguf", testing::MoonshineCheckpoint().bytes());
    const testing::VadCheckpointFile silero{testing::VadCheckpoint{}};
    EXPECT_EQ(code(moonshine, {.mode = RunMode::kStreaming}), "INVALID_REQUEST");
    for (const auto& file : {moonshine, silero.path()}) {
        EXPECT_EQ(code(file, {.max_batch = 0}), "INVALID_REQUEST");
        EXPECT_EQ(code(file, {.max_batch = 257}), "INVALID_REQUEST");
        EXPECT_EQ(code(file, {.threads = 0}), "INVALID_REQUEST");
    }
    EXPECT_EQ(code(moonshine, {.max_segment_seconds = 21}), "INVALID_REQUEST");
}

}  // namespace
}  // namespace wavepool
