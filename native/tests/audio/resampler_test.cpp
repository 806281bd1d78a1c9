#include "audio/conversion/resampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/support/audio_samples.h"

namespace wavepool::audio {
namespace {

std::vector<float> resample(std::span<const float> samples, int rate) {
    Resampler resampler(rate);
    std::vector<float> out;
    resampler.push(samples, out);
    resampler.finish(out);
    return out;
}

std::span<const float> middle(std::span<const float> samples) {
    return samples.subspan(samples.size() / 4, samples.size() / 2);
}

class ResamplerAtRate : public testing::TestWithParam<int> {};

TEST_P(ResamplerAtRate, KeepsTonesOfThePassBandInLevelAndPhase) {
    const int rate = GetParam();
    const double nyquist = std::min(rate, 16000) / 2.0;
    for (const double share : {0.02, 0.3, 0.6, 0.89}) {
        const double hertz = share * nyquist;
        const auto count = static_cast<std::size_t>(rate);
        const std::vector<float> out = resample(sine(hertz, rate, count), rate);
        const std::vector<float> expected = sine(hertz, 16000, out.size());
        // The error holds ripple, images and noise together.
        EXPECT_LT(error_db(middle(out), middle(expected)), -80) << hertz << " Hz";
    }
}

TEST_P(ResamplerAtRate, RejectsWhatLiesAboveTheNewNyquistFrequency) {
    const int rate = GetParam();
    for (const double hertz : {8000.0, 8100.0, 9000.0, 12000.0, 15900.0, 20000.0, 40000.0}) {
        if (hertz >= rate / 2.0) break;
        const std::vector<float> out =
            resample(sine(hertz, rate, static_cast<std::size_t>(rate), 1.0), rate);
        EXPECT_LT(20 * std::log10(rms(middle(out)) / 0.7071), -80) << hertz << " Hz";
    }
}

TEST_P(ResamplerAtRate, GivesTheRoundedLength) {
    const int rate = GetParam();
    for (const std::int64_t count : {0, 1, 2, 7, 100, 4321}) {
        const std::vector<float> out =
            resample(std::vector<float>(static_cast<std::size_t>(count), 0.1F), rate);
        const double exact = static_cast<double>(count) * 16000 / rate;
        EXPECT_NEAR(static_cast<double>(out.size()), exact, 0.5) << count;
    }
}

TEST_P(ResamplerAtRate, GivesTheSameBitsHoweverTheInputIsDivided) {
    const int rate = GetParam();
    const std::vector<float> samples = noise(20000, 7);
    const std::vector<float> whole = resample(samples, rate);
    Resampler resampler(rate);
    std::vector<float> out;
    std::mt19937 generator(3);
    for (std::span<const float> rest(samples); !rest.empty();) {
        const std::size_t count = std::min<std::size_t>(rest.size(), generator() % 700);
        resampler.push(rest.first(count), out);
        rest = rest.subspan(count);
    }
    resampler.finish(out);
    EXPECT_EQ(out, whole);
}

TEST_P(ResamplerAtRate, PassesAConstantUnchanged) {
    const int rate = GetParam();
    const std::vector<float> out =
        resample(std::vector<float>(static_cast<std::size_t>(rate), 0.25F), rate);
    for (const float sample : middle(out)) ASSERT_NEAR(sample, 0.25F, 1e-6F);
}

INSTANTIATE_TEST_SUITE_P(Rates, ResamplerAtRate,
                         testing::Values(1000, 7999, 8000, 11025, 12000, 22050, 24000, 32000, 44056,
                                         44100, 47999, 48000, 96000, 384000));

TEST(Resampler, Leaves16KilohertzAsItIs) {
    const std::vector<float> samples = noise(5000, 1);
    EXPECT_EQ(resample(samples, 16000), samples);
}

TEST(Resampler, FollowsASweepThroughTheWholePassBand) {
    constexpr int kRate = 48000;
    const auto sweep = [](int rate, std::size_t count) {
        std::vector<float> samples(count);
        for (std::size_t i = 0; i < count; ++i) {
            const double t = static_cast<double>(i) / rate;
            samples[i] =
                static_cast<float>(0.5 * std::sin(2 * 3.14159265358979 * (50 + 3500 * t) * t));
        }
        return samples;
    };
    const std::vector<float> out = resample(sweep(kRate, kRate), kRate);
    const std::vector<float> expected = sweep(16000, out.size());
    const std::span<const float> inner = std::span(out).subspan(200, out.size() - 400);
    EXPECT_LT(error_db(inner, std::span(expected).subspan(200, out.size() - 400)), -80);
}

}  // namespace
}  // namespace wavepool::audio
