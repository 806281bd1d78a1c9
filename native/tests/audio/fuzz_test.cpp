#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "audio/audio_input.h"
#include "tests/support/audio_samples.h"

namespace wavepool::audio {
namespace {

constexpr int kRounds = 1500;
Bytes first_bytes(Bytes bytes, std::size_t count) {
    bytes.resize(std::min(bytes.size(), count));
    return bytes;
}

Bytes mutate(Bytes bytes, std::mt19937& generator) {
    // Headers are where sizes lie: most changes go there.
    const std::size_t changes = 1 + generator() % 8;
    for (std::size_t i = 0; i < changes; ++i) {
        const std::size_t within = generator() % 4 != 0 ? 128 : bytes.size();
        const std::size_t at = generator() % std::min(within, bytes.size());
        constexpr std::uint8_t kExtremes[]{0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF};
        bytes[at] = generator() % 2 == 0 ? kExtremes[generator() % std::size(kExtremes)]
                                         : static_cast<std::uint8_t>(generator());
    }
    if (generator() % 4 == 0) bytes.resize(1 + generator() % bytes.size());
    return bytes;
}

/// Any outcome is right but a crash, a foreign exception, samples out of range, or more of them
/// than so few bytes can mean.
void expect_survival(const Bytes& seed, std::uint32_t generator_seed) {
    std::mt19937 generator(generator_seed);
    const TemporaryFile file(seed);
    int decoded = 0;
    for (int round = 0; round < kRounds; ++round) {
        file.write(mutate(seed, generator));
        try {
            const auto input = open_file(file.path());
            const bool ended = input->decode_until(std::int64_t{600} * kSampleRate, CancelToken());
            EXPECT_TRUE(ended) << "round " << round;
            std::vector<float> samples(static_cast<std::size_t>(input->store()->end()));
            input->store()->copy(0, samples);
            EXPECT_TRUE(std::all_of(samples.begin(), samples.end(),
                                    [](float sample) { return std::abs(sample) <= 1.0F; }))
                << "round " << round;
            ++decoded;
        } catch (const Error& error) {
            EXPECT_TRUE(error.code() == ErrorCode::kInputUndecodable ||
                        error.code() == ErrorCode::kInputEmpty)
                << "round " << round;
        }
    }
    EXPECT_GT(decoded, kRounds / 20) << "the mutations destroy too much to test anything";
}

TEST(AudioFuzz, DamagedWavNeverCrashes) {
    WavParts wav = wav16(interleave({noise(800, 1), noise(800, 2)}), 22050, 2);
    wav.extensible = true;
    put(wav.before_data, "LIST");
    put32(wav.before_data, 20);
    wav.before_data.insert(wav.before_data.end(), 20, 'x');
    expect_survival(wav.bytes(), 11);
}

TEST(AudioFuzz, DamagedMp3NeverCrashes) {
    expect_survival(first_bytes(read_file(speech_fixture("jfk.mp3")), 6000), 12);
}

TEST(AudioFuzz, DamagedFlacNeverCrashes) {
    expect_survival(first_bytes(read_file(speech_fixture("sense-0880.flac")), 20000), 13);
}

}  // namespace
}  // namespace wavepool::audio
