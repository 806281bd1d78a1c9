#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "framework/models/model.h"
#include "framework/sessions/session.h"
#include "models/silero_vad/silero_vad.h"
#include "tests/support/silero_vad_checkpoint.h"

namespace wavepool {
namespace {

constexpr std::int64_t kWindow = 512;
constexpr std::int64_t kSamples = 300 * kWindow;

class SileroVadSilence : public ::testing::Test {
  protected:
    [[nodiscard]] TaskRequest request(std::shared_ptr<const SampleStore> store) const {
        TaskRequest result;
        result.audio = {std::move(store), 0, kSamples};
        result.state = model_->create_state();
        return result;
    }

    /// Runs the requests as one batch, so many windows of each at a time; each one's probabilities.
    [[nodiscard]] std::vector<std::vector<float>> run(std::vector<TaskRequest> requests,
                                                      std::int64_t windows) const {
        const auto session = model_->create_session({.max_batch = requests.size()});
        auto& batched = dynamic_cast<IBatchedOfflineVoiceTaskSession&>(*session);
        std::vector<std::vector<float>> joined(requests.size());
        for (std::int64_t start = 0; start < kSamples; start += windows * kWindow) {
            for (TaskRequest& request : requests) {
                request.audio.start = start;
                request.audio.count = std::min(windows * kWindow, kSamples - start);
            }
            const auto outcomes = batched.run_batch(requests);
            for (std::size_t i = 0; i < outcomes.size(); ++i) {
                const auto& part = std::get<TaskResult>(outcomes[i]).probabilities;
                joined[i].insert(joined[i].end(), part.begin(), part.end());
            }
        }
        return joined;
    }

  private:
    std::shared_ptr<const ILoadedModel> model_ = silero_vad::load(
        *open_tensor_source(testing::VadCheckpointFile(testing::VadCheckpoint{}).path()));
};

std::vector<float> noise(std::uint32_t seed, std::int64_t samples) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < samples; ++i) {
        seed = seed * 1664525U + 1013904223U;
        values.push_back(0.2F * (static_cast<float>(seed >> 8) / 8388608.0F - 1.0F));
    }
    return values;
}

std::shared_ptr<SampleStore> store_of(const std::vector<float>& samples) {
    auto store = std::make_shared<SampleStore>();
    store->append(samples);
    return store;
}

/// Silence, sound, silence, a hum that repeats itself in every window, silence. With `signed_zeros`
/// every second window has its zeros negative: equal numbers, but no window has the bits of the one
/// before it.
std::shared_ptr<SampleStore> sound_in_silence(bool signed_zeros) {
    std::vector<float> samples(kSamples, 0.0F);
    std::ranges::copy(noise(1, 50 * kWindow), samples.begin() + 50 * kWindow);
    std::vector<float> hum = noise(2, kWindow);
    std::ranges::fill(hum.begin() + 100, hum.begin() + 110, 0.0F);
    for (std::int64_t window = 150; window < 220; ++window)
        std::ranges::copy(hum, samples.begin() + window * kWindow);
    for (std::int64_t i = 0; signed_zeros && i < kSamples; ++i) {
        float& sample = samples[static_cast<std::size_t>(i)];
        if (sample == 0 && i / kWindow % 2 == 1) sample = -0.0F;
    }
    return store_of(samples);
}

TEST_F(SileroVadSilence, GivesTheSameBitsForWindowsThatRepeatAsForOthers) {
    const auto expected = run({request(sound_in_silence(true))}, 300);
    EXPECT_EQ(run({request(sound_in_silence(false))}, 300), expected);
    const auto voice = store_of(noise(3, kSamples));
    const auto expected_of_voice = run({request(voice)}, 300);
    for (const std::int64_t windows : {1, 7, 48, 100}) {
        const auto found = run(
            {request(sound_in_silence(false)), request(voice), request(sound_in_silence(false))},
            windows);
        EXPECT_EQ(found, (std::vector{expected[0], expected_of_voice[0], expected[0]}))
            << windows << " windows at a time";
    }
}

TEST_F(SileroVadSilence, KeepsTheInputsOfABatchApart) {
    const auto silence = store_of(std::vector<float>(kSamples, 0.0F));
    const auto expected = run({request(silence)}, 300);
    EXPECT_EQ(run({request(silence), request(sound_in_silence(false)), request(silence)}, 48)[2],
              expected[0]);
}

}  // namespace
}  // namespace wavepool
