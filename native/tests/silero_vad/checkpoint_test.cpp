#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "framework/error.h"
#include "models/silero_vad/silero_vad.h"
#include "tests/support/silero_vad_checkpoint.h"

namespace wavepool {
namespace {

using testing::VadCheckpoint;
using testing::VadCheckpointFile;

TEST(SileroVadCheckpoint, IsRefusedWhenAnythingIsNotAsExpected) {
    const std::vector<std::pair<std::string, std::function<void(VadCheckpoint&)>>> cases{
        {"another architecture", [](auto& c) { c.architecture = "moonshine"; }},
        {"a missing tensor", [](auto& c) { c.tensors.erase("conv3.bias"); }},
        {"a missing key", [](auto& c) { c.integers.erase("silero.window"); }},
        {"another sample rate", [](auto& c) { c.integers["silero.sample_rate"] = 8000; }},
        {"another window", [](auto& c) { c.integers["silero.window"] = 1 << 30; }},
        {"a transposed matrix",
         [](auto& c) { c.tensors["lstm_cell.weight_ih"].shape = {128, 512}; }},
        {"another rank", [](auto& c) { c.tensors["final_conv.weight"].shape = {128}; }},
        {"a smaller tensor",
         [](auto& c) { c.tensors["lstm_cell.bias_hh"] = {{511}, std::vector<float>(511)}; }},
        {"a weight that is not a number",
         [](auto& c) {
             c.tensors["conv2.weight"].values[17] = std::numeric_limits<float>::quiet_NaN();
         }},
        {"an infinite basis",
         [](auto& c) {
             c.tensors["stft_conv.weight"].values[5] = std::numeric_limits<float>::infinity();
         }},
        {"a transform that is not a windowed DFT",
         [](auto& c) { c.tensors["stft_conv.weight"].values[40 * 256 + 100] += 1e-3F; }},
    };
    for (const auto& [name, spoil] : cases) {
        VadCheckpoint checkpoint;
        spoil(checkpoint);
        const VadCheckpointFile file(checkpoint);
        try {
            (void)silero_vad::load(*open_tensor_source(file.path()));
            ADD_FAILURE() << name << " was accepted";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::kModelFileInvalid) << name << ": " << error.what();
        }
    }
    EXPECT_NO_THROW(
        (void)silero_vad::load(*open_tensor_source(VadCheckpointFile(VadCheckpoint{}).path())));
}

/// test/fixtures/silero-vad of the repository that the tests run in.
std::filesystem::path fixtures() {
    for (auto folder = std::filesystem::current_path();; folder = folder.parent_path()) {
        const auto candidate = folder / "test" / "fixtures" / "silero-vad";
        if (std::filesystem::is_directory(candidate)) return candidate;
        if (folder == folder.root_path())
            throw std::runtime_error("run the tests inside the repository: no test/fixtures above");
    }
}

std::vector<float> read_numbers(const std::filesystem::path& file) {
    std::ifstream in(file);
    return {std::istream_iterator<float>(in), {}};
}

/// 16-bit mono PCM after the canonical header of 44 bytes.
std::vector<float> read_wav(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    std::vector<float> samples;
    for (std::size_t i = 44; i + 1 < bytes.size(); i += 2) {
        const auto low = static_cast<unsigned char>(bytes[i]);
        const auto high = static_cast<signed char>(bytes[i + 1]);
        samples.push_back(static_cast<float>(high * 256 + low) / 32768.0F);
    }
    return samples;
}

/// A gliding vowel with pauses over faint noise; README.md of the fixtures has the same formula.
std::vector<float> synthetic_signal() {
    constexpr double kTurn = 2 * std::numbers::pi;
    const auto bump = [](double x) { return std::exp(-x * x); };
    std::vector<float> samples;
    for (std::int64_t i = 0; i < 47000; ++i) {
        const double t = static_cast<double>(i) / 16000;
        const double phase = kTurn * (120 * t + 8 * std::sin(kTurn * 0.7 * t) / (kTurn * 0.7));
        double voice = 0;
        for (int h = 1; h <= 25; ++h) {
            const double f = 120.0 * h;
            const double formants = bump((f - 600 - 250 * std::sin(kTurn * 3 * t)) / 180) +
                                    0.6 * bump((f - 1500 + 500 * std::sin(kTurn * 2 * t)) / 220) +
                                    0.08;
            voice += formants * std::sin(h * phase);
        }
        const double gate = i / 8000 % 3 < 2 ? std::max(0.0, std::sin(kTurn * 4 * t)) : 0.0;
        const double hiss = static_cast<double>((i * i * 7 + i * 13) % 4001 - 2000) / 400000;
        samples.push_back(static_cast<float>(0.12 * gate * voice + hiss));
    }
    return samples;
}

class SileroVadReference : public ::testing::TestWithParam<std::string> {};

TEST_P(SileroVadReference, AgreesWithOnnxruntimeOnEveryWindow) {
    const char* models = std::getenv("WAVEPOOL_TEST_MODELS");
    if (models == nullptr)
        GTEST_SKIP() << "set WAVEPOOL_TEST_MODELS to a folder with silero-vad.gguf";
    const auto model =
        silero_vad::load(*open_tensor_source(std::filesystem::path(models) / "silero-vad.gguf"));

    const std::vector<float> samples =
        GetParam() == "clip" ? read_wav(fixtures() / "clip.wav") : synthetic_signal();
    const std::vector<float> expected = read_numbers(fixtures() / (GetParam() + ".txt"));
    auto store = std::make_shared<SampleStore>();
    store->append(samples);
    const auto session = model->create_session({});
    TaskRequest request;
    request.audio = {store, 0, store->end()};
    request.state = model->create_state();
    const std::vector<float> found =
        dynamic_cast<IOfflineVoiceTaskSession&>(*session).run(request).probabilities;

    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_NEAR(found[i], expected[i], 1e-4) << "window " << i;
        EXPECT_EQ(found[i] >= 0.5F, expected[i] >= 0.5F) << "window " << i;
    }
}

INSTANTIATE_TEST_SUITE_P(All, SileroVadReference, ::testing::Values("clip", "signal"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace wavepool
