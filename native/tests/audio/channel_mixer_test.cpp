#include "audio/conversion/channel_mixer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/support/audio_samples.h"

namespace wavepool::audio {
namespace {

constexpr int kRate = 16000;

struct Mixed {
    std::vector<float> mono;
    int silent_channels = 0;
    bool anti_phase = false;
};

Mixed mix(const std::vector<std::vector<float>>& channels) {
    ChannelMixer mixer(static_cast<int>(channels.size()), kRate);
    Mixed result;
    mixer.push(interleave(channels), result.mono);
    mixer.finish(result.mono);
    result.silent_channels = mixer.silent_channels();
    result.anti_phase = mixer.anti_phase();
    return result;
}

std::vector<float> scaled(std::vector<float> samples, float factor) {
    for (float& sample : samples) sample *= factor;
    return samples;
}

std::vector<float> joined(std::vector<float> first, const std::vector<float>& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

TEST(ChannelMixer, LeavesOneChannelAsItIs) {
    const std::vector<float> samples = noise(5001, 1, 1.0F);
    EXPECT_EQ(mix({samples}).mono, samples);
}

TEST(ChannelMixer, KeepsEqualChannelsBitForBit) {
    const std::vector<float> samples = noise(5001, 1, 1.0F);
    const Mixed mixed = mix({samples, samples});
    EXPECT_EQ(mixed.mono, samples);
    EXPECT_EQ(mixed.silent_channels, 0);
    EXPECT_FALSE(mixed.anti_phase);
}

TEST(ChannelMixer, KeepsOneSidedSpeechAtFullLevelOnEitherSide) {
    const std::vector<float> speech = noise(16001, 2);
    const std::vector<float> silence(speech.size(), 0.0F);
    const Mixed right = mix({silence, speech});
    const Mixed left = mix({speech, silence});
    EXPECT_EQ(right.mono, speech);
    EXPECT_EQ(left.mono, speech);
    EXPECT_EQ(right.silent_channels, 1);
}

TEST(ChannelMixer, LosesNeitherLevelNorOnsetAfterSilence) {
    const std::vector<float> quiet(8000, 0.0F);
    const std::vector<float> speech = joined(quiet, noise(8000, 4));
    const Mixed mixed = mix({speech, std::vector<float>(16000, 0.0F)});
    // From 5 ms after the onset on, the mix is the speech.
    EXPECT_TRUE(std::equal(mixed.mono.begin() + 8080, mixed.mono.end(), speech.begin() + 8080));
    EXPECT_GT(rms(std::span(mixed.mono).subspan(8000, 80)),
              0.5 * rms(std::span(speech).subspan(8000, 80)));
}

TEST(ChannelMixer, KeepsFullLevelOverANoiseFloorOnTheOtherChannel) {
    const std::vector<float> speech = sine(300, kRate, 32000);
    const Mixed mixed = mix({speech, noise(32000, 5, 0.005F)});
    EXPECT_LT(error_db(mixed.mono, speech), -50);
    EXPECT_EQ(mixed.silent_channels, 0);
}

TEST(ChannelMixer, KeepsChannelsInAntiPhase) {
    const std::vector<float> speech = noise(16001, 6);
    const Mixed mixed = mix({speech, scaled(speech, -1.0F)});
    EXPECT_EQ(mixed.mono, speech);
    EXPECT_TRUE(mixed.anti_phase);
    const Mixed unequal = mix({scaled(speech, 0.5F), scaled(speech, -0.8F)});
    EXPECT_GT(rms(unequal.mono), 0.65 * rms(speech));
}

TEST(ChannelMixer, TurnsAPhaseRoundWhereTheRecordingDoes) {
    const std::vector<float> first = noise(16000, 7);
    const std::vector<float> second = noise(16000, 8);
    const Mixed mixed = mix({joined(first, second), joined(first, scaled(second, -1.0F))});
    EXPECT_NEAR(rms(std::span(mixed.mono).first(16000)), rms(first), 1e-6);
    // The decaying correlation needs a moment.
    const std::span<const float> after = std::span(mixed.mono).subspan(22000);
    EXPECT_NEAR(rms(after), rms(std::span(second).subspan(6000)), 1e-6);
}

TEST(ChannelMixer, KeepsTwoPeopleWhoSpeakInTurn) {
    const std::vector<float> quiet(16000, 0.0F);
    const std::vector<float> left = joined(noise(16000, 9), quiet);
    const std::vector<float> right = joined(quiet, noise(16000, 10));
    const Mixed mixed = mix({left, right});
    const auto level = [](std::span<const float> samples, std::size_t from, std::size_t count) {
        return rms(samples.subspan(from, count));
    };
    EXPECT_NEAR(level(mixed.mono, 0, 16000), level(left, 0, 16000), 1e-6);
    // Never 6 dB down, not even in the first 100 ms of the second; then soon in full.
    EXPECT_GT(level(mixed.mono, 16000, 1600), 0.5 * level(right, 16000, 1600));
    EXPECT_GT(level(mixed.mono, 24000, 8000), 0.9 * level(right, 24000, 8000));
}

TEST(ChannelMixer, FindsTheOneChannelOfSixThatSpeaks) {
    const std::vector<float> speech = noise(16000, 11);
    std::vector<std::vector<float>> channels(6, std::vector<float>(16000, 0.0F));
    channels[2] = speech;
    const Mixed mixed = mix(channels);
    EXPECT_EQ(mixed.mono, speech);
    EXPECT_EQ(mixed.silent_channels, 5);
}

TEST(ChannelMixer, NeverLeavesFullScale) {
    for (const float amplitude : {1.0F, 4.0F, 32768.0F}) {
        const Mixed mixed = mix(
            {noise(9000, 12, amplitude), noise(9000, 13, amplitude), noise(9000, 14, amplitude)});
        for (const float sample : mixed.mono) ASSERT_LE(std::abs(sample), 1.0F);
    }
}

TEST(ChannelMixer, DoesNotTouchFullScale) {
    std::vector<float> square(8000);
    for (std::size_t i = 0; i < square.size(); ++i) square[i] = i / 20 % 2 == 0 ? 1.0F : -1.0F;
    EXPECT_EQ(mix({square, square}).mono, square);
}

TEST(ChannelMixer, TurnsFloatsBeyondFullScaleDownInsteadOfCuttingThem) {
    const Mixed mixed = mix({sine(450, kRate, 16000, 4.0)});
    EXPECT_LT(error_db(mixed.mono, sine(450, kRate, 16000, 1.0)), -40);
}

TEST(ChannelMixer, SaysNothingAboutSilence) {
    const std::vector<float> silence(16000, 0.0F);
    const Mixed mixed = mix({silence, silence});
    EXPECT_EQ(mixed.mono, silence);
    EXPECT_EQ(mixed.silent_channels, 0);
    EXPECT_FALSE(mixed.anti_phase);
}

TEST(ChannelMixer, DoesNotTurnRoundUnrelatedChannels) {
    EXPECT_FALSE(mix({noise(48000, 15), noise(48000, 16)}).anti_phase);
}

TEST(ChannelMixer, GivesTheSameBitsHoweverTheInputIsDivided) {
    const std::vector<float> frames =
        interleave({noise(20000, 17), sine(200, kRate, 20000), noise(20000, 18, 2.0F)});
    const std::vector<float> whole =
        mix({noise(20000, 17), sine(200, kRate, 20000), noise(20000, 18, 2.0F)}).mono;
    ChannelMixer mixer(3, kRate);
    std::vector<float> out;
    std::mt19937 generator(19);
    for (std::span<const float> rest(frames); !rest.empty();) {
        const std::size_t count = std::min<std::size_t>(rest.size(), generator() % 500 * 3);
        mixer.push(rest.first(count), out);
        rest = rest.subspan(count);
    }
    mixer.finish(out);
    EXPECT_EQ(out, whole);
}

}  // namespace
}  // namespace wavepool::audio
