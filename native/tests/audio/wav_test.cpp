#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <ostream>
#include <tuple>

#include "audio/audio_input.h"
#include "tests/support/audio_samples.h"

namespace wavepool::audio {
namespace {

// Two seconds, so that a lie about the size always hides something audible.
std::vector<float> tone() { return sine(440, 16000, 32000); }

Bytes chunk(std::string_view id, std::size_t size, std::uint8_t fill = 'x') {
    Bytes bytes;
    put(bytes, id);
    put32(bytes, static_cast<std::uint32_t>(size));
    bytes.insert(bytes.end(), size, fill);
    return bytes;
}

Bytes operator+(Bytes a, const Bytes& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

void expect_tone(const Decoded& decoded, double tolerance_db = -85) {
    ASSERT_EQ(decoded.samples.size(), tone().size());
    EXPECT_LT(error_db(decoded.samples, tone()), tolerance_db);
}

struct Format {
    const char* codec;
    int tag;
    int bits;
    double tolerance_db;
};

void PrintTo(const Format& format, std::ostream* out) { *out << format.codec; }

// ITU-T G.711, the encoding direction.
std::uint8_t encode_mu_law(float sample) {
    constexpr int kBias = 132;
    const int sign = sample < 0 ? 0x80 : 0;
    const int value = std::min(32635, static_cast<int>(std::abs(sample) * 32768)) + kBias;
    const int segment = static_cast<int>(std::bit_width(static_cast<unsigned>(value))) - 8;
    return static_cast<std::uint8_t>(~(sign | segment << 4 | (value >> (segment + 3) & 0x0F)));
}

std::uint8_t encode_a_law(float sample) {
    const int sign = sample < 0 ? 0 : 0x80;
    const int value = std::min(32767, static_cast<int>(std::abs(sample) * 32768)) >> 4;
    int code = value;
    if (value >= 16) {
        const int segment = static_cast<int>(std::bit_width(static_cast<unsigned>(value))) - 4;
        code = segment << 4 | (value >> (segment - 1) & 0x0F);
    }
    return static_cast<std::uint8_t>((sign | code) ^ 0x55);
}

Bytes encode(const Format& format, std::span<const float> samples) {
    Bytes bytes;
    for (const float sample : samples) {
        const double value = sample;
        if (format.tag == 7) {
            bytes.push_back(encode_mu_law(sample));
        } else if (format.tag == 6) {
            bytes.push_back(encode_a_law(sample));
        } else if (format.tag == 3 && format.bits == 32) {
            put32(bytes, std::bit_cast<std::uint32_t>(sample));
        } else if (format.tag == 3) {
            const auto bits = std::bit_cast<std::uint64_t>(value);
            put32(bytes, static_cast<std::uint32_t>(bits));
            put32(bytes, static_cast<std::uint32_t>(bits >> 32));
        } else if (format.bits == 8) {
            bytes.push_back(static_cast<std::uint8_t>(std::lround(value * 128) + 128));
        } else {
            const auto scaled = std::llround(value * std::ldexp(1.0, format.bits - 1));
            for (int byte = 0; byte < format.bits / 8; ++byte)
                bytes.push_back(static_cast<std::uint8_t>(scaled >> (8 * byte)));
        }
    }
    return bytes;
}

class WavFormat : public testing::TestWithParam<std::tuple<Format, bool>> {};

TEST_P(WavFormat, DecodesToTheSameTone) {
    const auto& [format, extensible] = GetParam();
    WavParts wav;
    wav.tag = format.tag;
    wav.bits = format.bits;
    wav.extensible = extensible;
    wav.samples = encode(format, tone());
    const Decoded decoded = decode(wav.bytes());
    expect_tone(decoded, format.tolerance_db);
    EXPECT_EQ(decoded.info.container, "wav");
    EXPECT_EQ(decoded.info.codec, format.codec);
    EXPECT_EQ(decoded.info.bits_per_sample, format.bits);
    EXPECT_TRUE(decoded.warnings.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Formats, WavFormat,
    testing::Combine(testing::Values(Format{"pcm_u8", 1, 8, -40}, Format{"pcm_s16le", 1, 16, -85},
                                     Format{"pcm_s24le", 1, 24, -130},
                                     Format{"pcm_s32le", 1, 32, -140},
                                     Format{"pcm_f32le", 3, 32, -200},
                                     Format{"pcm_f64le", 3, 64, -200},
                                     Format{"pcm_alaw", 6, 8, -32}, Format{"pcm_mulaw", 7, 8, -32}),
                     testing::Bool()));

TEST(Wav, ReportsWhatA24BitStereoFileIs) {
    WavParts wav;
    wav.bits = 24;
    wav.channels = 2;
    wav.rate = 44100;
    wav.extensible = true;
    wav.samples =
        encode({"", 1, 24, 0}, interleave({sine(440, 44100, 44100), sine(440, 44100, 44100)}));
    const Decoded decoded = decode(wav.bytes());
    EXPECT_EQ(decoded.info.channels, 2);
    EXPECT_EQ(decoded.info.sample_rate, 44100);
    EXPECT_EQ(decoded.info.bits_per_sample, 24);
    ASSERT_EQ(decoded.samples.size(), 16000U);
    EXPECT_LT(error_db(std::span(decoded.samples).subspan(1000, 14000),
                       std::span<const float>(sine(440, 16000, 16000)).subspan(1000, 14000)),
              -80);
}

TEST(Wav, Reads20BitSamplesInThreeBytes) {
    WavParts wav;
    wav.bits = 20;
    wav.samples = encode({"", 1, 24, 0}, tone());
    expect_tone(decode(wav.bytes()));
}

TEST(Wav, ReadsWhatIsThereWhateverTheHeaderSays) {
    WavParts wav = wav16(tone());
    wav.override_sizes = true;
    const auto size = static_cast<std::uint32_t>(wav.samples.size());
    struct Sizes {
        std::uint32_t riff, data;
        const char* warning;
    };
    for (const Sizes& sizes :
         {Sizes{0xFFFFFFFF, 0xFFFFFFFF, "HEADER_SIZE_IGNORED"}, Sizes{0, 0, "HEADER_SIZE_IGNORED"},
          Sizes{0x7FFFFFFF, 0x7FFFFFDB, "HEADER_SIZE_IGNORED"},
          Sizes{size + 36, size / 2, "HEADER_SIZE_IGNORED"},
          Sizes{size / 2 + 36, size / 2, "HEADER_SIZE_IGNORED"},
          Sizes{36 + 10 * size, 10 * size, "TRUNCATED"}}) {
        wav.riff_size = sizes.riff;
        wav.data_size = sizes.data;
        const Decoded decoded = decode(wav.bytes());
        expect_tone(decoded);
        EXPECT_TRUE(decoded.warned(sizes.warning)) << sizes.data;
        EXPECT_EQ(decoded.warnings.size(), 1U);
    }
}

TEST(Wav, BelievesTheDataSizeWhenOnlyTheRiffSizeLies) {
    WavParts wav = wav16(tone());
    wav.override_sizes = true;
    wav.data_size = static_cast<std::uint32_t>(wav.samples.size());
    wav.riff_size = 17;
    wav.after_data = chunk("LIST", 400);
    const Decoded decoded = decode(wav.bytes());
    expect_tone(decoded);
    EXPECT_TRUE(decoded.warnings.empty());
}

TEST(Wav, PassesOverChunksAndTagsAroundTheSamples) {
    for (const Bytes& after : {chunk("LIST", 5000), chunk("zzzz", 6000), chunk("id3 ", 7),
                               Bytes(700, 0xA5), chunk("TAG", 124)}) {
        WavParts wav = wav16(tone());
        wav.before_format = chunk("JUNK", 28) + chunk("bext", 602);
        wav.before_data = chunk("fact", 4) + chunk("LIST", 120) + chunk("abcd", 33) + Bytes{0};
        wav.after_data = after;
        const Decoded decoded = decode(wav.bytes());
        expect_tone(decoded);
        EXPECT_TRUE(decoded.warnings.empty());
    }
}

TEST(Wav, ToleratesAnOddChunkWithoutItsPadding) {
    WavParts wav = wav16(tone());
    wav.before_data = chunk("LIST", 33);
    expect_tone(decode(wav.bytes()));
}

TEST(Wav, FindsTheSamplesBehindAChunkThatClaimsTooMuch) {
    WavParts wav = wav16(tone());
    wav.before_data = chunk("LIST", 26);
    wav.before_data[4] = wav.before_data[5] = wav.before_data[6] = 0xFF;
    const Decoded decoded = decode(wav.bytes());
    expect_tone(decoded);
    EXPECT_TRUE(decoded.warned("HEADER_SIZE_IGNORED"));
}

TEST(Wav, ReadsRf64) {
    WavParts wav = wav16(tone());
    Bytes sizes;
    put(sizes, "ds64");
    put32(sizes, 28);
    put32(sizes, static_cast<std::uint32_t>(wav.samples.size() + 72));
    put32(sizes, 0);
    put32(sizes, static_cast<std::uint32_t>(wav.samples.size()));
    put32(sizes, 0);
    sizes.insert(sizes.end(), 12, 0);
    wav.before_format = sizes;
    wav.override_sizes = true;
    wav.riff_size = wav.data_size = 0xFFFFFFFF;
    wav.after_data = chunk("LIST", 9000);
    Bytes bytes = wav.bytes();
    bytes[1] = 'F', bytes[2] = '6', bytes[3] = '4';
    const Decoded decoded = decode(bytes);
    expect_tone(decoded);
    EXPECT_TRUE(decoded.warnings.empty());
}

TEST(Wav, GivesTheWholeFramesOfAFileThatBreaksOff) {
    Bytes bytes = wav16(interleave({tone(), tone()}), 16000, 2).bytes();
    bytes.resize(44 + 1001 * 4 + 3);
    const Decoded decoded = decode(bytes);
    EXPECT_EQ(decoded.samples.size(), 1001U);
    EXPECT_TRUE(decoded.warned("TRUNCATED"));
}

TEST(Wav, WithoutSamplesIsEmpty) {
    EXPECT_EQ(failure_of_opening(wav16({}).bytes()), ErrorCode::kInputEmpty);
    WavParts lying = wav16({});
    lying.override_sizes = true;
    lying.data_size = 0xFFFFFFFF;
    EXPECT_EQ(failure_of_opening(lying.bytes()), ErrorCode::kInputEmpty);
    WavParts followed = wav16({});
    followed.after_data = chunk("LIST", 5000);
    EXPECT_EQ(failure_of_opening(followed.bytes()), ErrorCode::kInputEmpty);
}

TEST(Wav, WithAFormatOfItsOwnIsUndecodable) {
    const auto refused = [](auto change) {
        WavParts wav = wav16(tone());
        change(wav);
        return failure_of_opening(wav.bytes()) == ErrorCode::kInputUndecodable;
    };
    EXPECT_TRUE(refused([](WavParts& wav) { wav.tag = 0x55; }));
    EXPECT_TRUE(refused([](WavParts& wav) { wav.tag = 2; }));
    EXPECT_TRUE(refused([](WavParts& wav) { wav.channels = 0; }));
    EXPECT_TRUE(refused([](WavParts& wav) { wav.channels = 60000; }));
    EXPECT_TRUE(refused([](WavParts& wav) { wav.rate = 0; }));
    EXPECT_TRUE(refused([](WavParts& wav) { wav.rate = 2000000000; }));
    EXPECT_TRUE(refused([](WavParts& wav) { wav.bits = 64; }));
}

TEST(Wav, HeadersThatBreakOffAreUndecodable) {
    const Bytes bytes = wav16(tone()).bytes();
    for (const std::size_t size : {1, 4, 11, 12, 20, 30})
        EXPECT_EQ(failure_of_opening(std::span(bytes).first(size)), ErrorCode::kInputUndecodable)
            << size;
}

TEST(Wav, MakesSilenceOfFloatsThatAreNotNumbers) {
    std::vector<float> samples = tone();
    samples[100] = std::numeric_limits<float>::quiet_NaN();
    samples[20000] = std::numeric_limits<float>::infinity();
    WavParts wav;
    wav.tag = 3;
    wav.bits = 32;
    wav.samples = encode({"", 3, 32, 0}, samples);
    const Decoded decoded = decode(wav.bytes());
    ASSERT_EQ(decoded.samples.size(), samples.size());
    for (const float sample : decoded.samples) ASSERT_LE(std::abs(sample), 1.0F);
    EXPECT_EQ(decoded.samples[100], 0.0F);
}

}  // namespace
}  // namespace wavepool::audio
