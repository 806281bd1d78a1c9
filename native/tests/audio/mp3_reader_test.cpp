#include "audio/containers/mp3_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "audio/bytes/file_reader.h"
#include "audio/containers/mp3_header.h"
#include "tests/support/audio_samples.h"

namespace wavepool::audio {
namespace {

constexpr std::size_t kFrameSamples = 1152;

Bytes fixture(std::string_view name) {
    return read_file(std::filesystem::path(WAVEPOOL_FIXTURES) / "mp3" / name);
}

Mp3Reader open(const TemporaryFile& file) {
    return Mp3Reader(std::make_unique<FileReader>(file.path()), 64 * 1024, CancelToken());
}

/// All frames of a stream at its own rate, read in pieces of `frames()` frames.
std::vector<float> read_all(
    const Bytes& bytes, const std::function<std::size_t()>& frames = [] { return 100000; }) {
    const TemporaryFile file(bytes);
    Mp3Reader reader = open(file);
    const auto channels = static_cast<std::size_t>(reader.info().channels);
    std::vector<float> all;
    std::vector<float> piece;
    for (std::size_t wanted = 0, count = 0; count == wanted;) {
        wanted = frames();
        piece.resize(wanted * channels);
        count = reader.read(piece, CancelToken());
        all.insert(all.end(), piece.begin(),
                   piece.begin() + static_cast<std::ptrdiff_t>(count * channels));
    }
    return all;
}

/// Calls `change` with each frame of the stream that `bytes` hold, but for the encoder's note.
void for_each_frame(Bytes& bytes, const std::function<void(std::span<std::uint8_t>)>& change) {
    bool first = true;
    for (std::size_t at = 0; at + Mp3Header::kBytes <= bytes.size();) {
        const auto header = Mp3Header::parse(std::span(bytes).subspan(at));
        if (!header || at + header->frame_bytes > bytes.size()) {
            ++at;
            continue;
        }
        if (!first) change(std::span(bytes).subspan(at, header->frame_bytes));
        first = false;
        at += header->frame_bytes;
    }
}

/// The delay and padding that the encoder notes.
Bytes with_delays(Bytes bytes, std::size_t delay, std::size_t padding) {
    constexpr std::string_view kNote = "Info";
    const auto note = std::search(bytes.begin(), bytes.end(), kNote.begin(), kNote.end());
    // Flags, frames, bytes, table of contents and quality, then the encoder's name.
    std::uint8_t* encoder = &*note + 8 + 4 + 4 + 100 + 4;
    const std::string_view name = "LAME3.100";
    std::copy(name.begin(), name.end(), encoder);
    encoder[21] = static_cast<std::uint8_t>(delay >> 4);
    encoder[22] = static_cast<std::uint8_t>((delay & 15) << 4 | padding >> 8);
    encoder[23] = static_cast<std::uint8_t>(padding);
    return bytes;
}

TEST(Mp3Reader, KeepsEqualChannelsEqualToTheBit) {
    const std::vector<float> samples = read_all(fixture("equal-channels-44k.mp3"));
    ASSERT_GT(samples.size(), 2 * 100000U);
    for (std::size_t i = 0; i < samples.size(); i += 2) ASSERT_EQ(samples[i], samples[i + 1]) << i;
}

TEST(Mp3Reader, DropsExactlyWhatTheEncoderNotesAtBothEnds) {
    // Every decoder delays by 529 samples: they are dropped in any case, and are not padding.
    constexpr std::size_t kDecoderDelay = 529;
    const std::vector<float> whole = read_all(with_delays(fixture("mono-44k.mp3"), 0, 0));
    for (const std::size_t delay : {0U, 575U, 576U, 1105U, 2112U})
        for (const std::size_t padding : {0U, 529U, 530U, 531U, 900U, 1151U}) {
            SCOPED_TRACE(std::to_string(delay) + " " + std::to_string(padding));
            const std::size_t end =
                whole.size() - (std::max(padding, kDecoderDelay) - kDecoderDelay);
            EXPECT_EQ(read_all(with_delays(fixture("mono-44k.mp3"), delay, padding)),
                      std::vector<float>(whole.begin() + static_cast<std::ptrdiff_t>(delay),
                                         whole.begin() + static_cast<std::ptrdiff_t>(end)));
        }
}

TEST(Mp3Reader, MakesSilenceOfDamagedFrames) {
    Bytes bytes = fixture("joint-44k.mp3");
    const std::size_t samples = decode(bytes).samples.size();
    int frames = 0;
    for_each_frame(bytes, [&](std::span<std::uint8_t> frame) {
        if (++frames == 60) std::fill(frame.begin() + Mp3Header::kBytes, frame.end(), 0xFF);
    });
    const Decoded decoded = decode(bytes);
    EXPECT_EQ(decoded.warnings, std::vector<std::string>{"DECODE_ERRORS_SKIPPED"});
    EXPECT_EQ(decoded.samples.size(), samples);
    // Frame 60 without its edges, where the frames around it fade out.
    const std::size_t start = 60 * kFrameSamples * 16000 / 44100;
    EXPECT_LT(rms(std::span(decoded.samples).subspan(start + 100, 200)), 1e-4);
}

TEST(Mp3Reader, SurvivesGarbageInTheSpectrum) {
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
        Bytes bytes = fixture("joint-44k.mp3");
        std::mt19937 generator(seed);
        for_each_frame(bytes, [&](std::span<std::uint8_t> frame) {
            for (int i = 0; i < 3; ++i)
                frame[Mp3Header::kBytes + generator() % (frame.size() - Mp3Header::kBytes)] =
                    static_cast<std::uint8_t>(generator());
        });
        const Decoded decoded = decode(bytes);
        EXPECT_EQ(decode(bytes).samples, decoded.samples);
        for (const float sample : decoded.samples) ASSERT_LE(std::abs(sample), 1.0F);
    }
}

/// Streams one after the other, whose encoders note the same delay and no padding.
Bytes one_after_the_other(std::initializer_list<const char*> names) {
    Bytes all;
    for (const char* name : names) put(all, with_delays(fixture(name), 576, 529));
    return all;
}

TEST(Mp3Reader, MixesAStereoStreamThatFollowsAMonoOne) {
    const std::vector<float> stereo = read_all(one_after_the_other({"joint-44k.mp3"}));
    const std::vector<float> mixed =
        read_all(one_after_the_other({"mono-44k.mp3", "joint-44k.mp3"}));
    // The first frames of the second stream overlap the end of the first.
    const std::size_t compared = stereo.size() / 2 - 4 * kFrameSamples;
    ASSERT_GT(mixed.size(), compared);
    for (std::size_t i = 1; i <= compared; ++i) {
        const std::size_t at = stereo.size() - 2 * i;
        ASSERT_EQ(mixed[mixed.size() - i], 0.5F * (stereo[at] + stereo[at + 1])) << i;
    }
}

TEST(Mp3Reader, GivesBothChannelsAMonoStreamThatFollowsAStereoOne) {
    const std::vector<float> mono = read_all(one_after_the_other({"mono-44k.mp3"}));
    const std::vector<float> both =
        read_all(one_after_the_other({"joint-44k.mp3", "mono-44k.mp3"}));
    const std::size_t compared = mono.size() - 4 * kFrameSamples;
    ASSERT_GT(both.size(), 2 * compared);
    for (std::size_t i = 1; i <= compared; ++i) {
        const std::size_t at = both.size() - 2 * i;
        ASSERT_EQ(both[at], mono[mono.size() - i]) << i;
        ASSERT_EQ(both[at + 1], mono[mono.size() - i]) << i;
    }
}

TEST(Mp3Reader, GivesTheSameBitsHoweverItIsRead) {
    std::mt19937 generator(1);
    EXPECT_EQ(read_all(fixture("joint-44k.mp3"), [&] { return 1 + generator() % 999; }),
              read_all(fixture("joint-44k.mp3")));
}

}  // namespace
}  // namespace wavepool::audio
