#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <random>

#include "audio/bytes/file_reader.h"
#include "audio/containers/mp3_header.h"
#include "audio/containers/mp3_reader.h"
#include "audio/sample_writer.h"
#include "tests/support/audio_samples.h"

/// MP3 decoded at half its rate against the same decoded whole: at 16 kHz there must be no
/// difference that matters.
namespace wavepool::audio {
namespace {

// Makes the reader decode at the stream's own rate.
constexpr int kNoHalving = kMaxSampleRate;
// At a cut through sound, each rate has another edge.
constexpr std::size_t kEdge = kSampleRate / 20;

Bytes fixture(std::string_view name) {
    return read_file(std::filesystem::path(WAVEPOOL_FIXTURES) / "mp3" / name);
}

Mp3Reader open(const TemporaryFile& file, int wanted_rate) {
    return Mp3Reader(std::make_unique<FileReader>(file.path()), 64 * 1024, wanted_rate,
                     CancelToken());
}

struct Reading {
    SourceInfo info;
    int frame_rate = 0;
    std::vector<float> samples;  ///< at 16 kHz
    std::vector<std::string> warnings;
};

Reading read_mp3(const Bytes& bytes, int wanted_rate, std::optional<int> channel = std::nullopt) {
    const TemporaryFile file(bytes);
    Mp3Reader reader = open(file, wanted_rate);
    SampleWriter writer(reader.frame_rate(), reader.info().channels, channel);
    const auto channels = static_cast<std::size_t>(reader.info().channels);
    std::vector<float> frames(1000 * channels);
    for (std::size_t count = frames.size(); count == frames.size();) {
        count = reader.read(frames, CancelToken()) * channels;
        writer.write(std::span(frames).first(count));
    }
    writer.finish(reader.ends_in_half_frame());
    Reading reading{reader.info(), reader.frame_rate(), {}, {}};
    reading.samples.resize(static_cast<std::size_t>(writer.store()->end()));
    writer.store()->copy(0, reading.samples);
    for (const Warning& warning : reader.warnings()) reading.warnings.push_back(warning.code);
    return reading;
}

std::span<const float> inner(const std::vector<float>& samples) {
    return std::span(samples).subspan(kEdge, samples.size() - 2 * kEdge);
}

/// The halved reading, after a comparison with the whole one.
Reading expect_equal(const Bytes& bytes, double most_error_db,
                     std::optional<int> channel = std::nullopt) {
    const Reading whole = read_mp3(bytes, kNoHalving, channel);
    Reading halved = read_mp3(bytes, kSampleRate, channel);
    EXPECT_EQ(whole.frame_rate, whole.info.sample_rate);
    EXPECT_EQ(2 * halved.frame_rate, halved.info.sample_rate);
    EXPECT_EQ(halved.info.channels, whole.info.channels);
    EXPECT_EQ(halved.samples.size(), whole.samples.size());
    EXPECT_EQ(halved.warnings, whole.warnings);
    EXPECT_LT(error_db(inner(halved.samples), inner(whole.samples)), most_error_db);
    EXPECT_LT(error_db(halved.samples, whole.samples), -50);
    EXPECT_NEAR(rms(halved.samples) / rms(whole.samples), 1, 1e-4);
    return halved;
}

/// Calls `change` with each frame of the stream that `bytes` hold, but for the encoder's note.
void for_each_frame(Bytes& bytes,
                    const std::function<void(std::span<std::uint8_t>, const Mp3Header&)>& change) {
    bool first = true;
    for (std::size_t at = 0; at + Mp3Header::kBytes <= bytes.size();) {
        const auto header = Mp3Header::parse(std::span(bytes).subspan(at));
        if (!header || at + header->frame_bytes > bytes.size()) {
            ++at;
            continue;
        }
        if (!first) change(std::span(bytes).subspan(at, header->frame_bytes), *header);
        first = false;
        at += header->frame_bytes;
    }
}

/// A field of `width` bits, `bit` bits after the header of a frame.
std::uint32_t field(std::span<const std::uint8_t> frame, std::size_t bit, std::size_t width) {
    std::uint32_t value = 0;
    for (std::size_t i = bit; i < bit + width; ++i)
        value = value << 1 | (frame[Mp3Header::kBytes + i / 8] >> (7 - i % 8) & 1U);
    return value;
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

TEST(Mp3HalfRate, GivesWhatTheWholeRateGivesOfEachChannel) {
    for (const char* name : {"joint-44k.mp3", "left-right-48k.mp3", "equal-channels-44k.mp3"})
        for (const int channel : {0, 1}) {
            SCOPED_TRACE(name);
            expect_equal(fixture(name), -95, channel);
        }
    expect_equal(fixture("mono-44k.mp3"), -95);
}

TEST(Mp3HalfRate, GivesTheSameMix) {
    // The weights of channels that differ follow their levels in the lower band alone.
    expect_equal(fixture("joint-44k.mp3"), -60);
    expect_equal(fixture("left-right-48k.mp3"), -60);
    expect_equal(fixture("equal-channels-44k.mp3"), -95);
}

TEST(Mp3HalfRate, KeepsEqualChannelsEqualToTheBit) {
    const TemporaryFile file(fixture("equal-channels-44k.mp3"));
    Mp3Reader reader = open(file, kSampleRate);
    std::vector<float> frames(2 * 60000);
    const std::size_t count = reader.read(frames, CancelToken());
    ASSERT_GT(count, 50000U);
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(frames[2 * i], frames[2 * i + 1]) << i;
}

TEST(Mp3HalfRate, KeepsLengthAndPlaceWhateverIsDroppedAtBothEnds) {
    for (const std::size_t delay : {0U, 575U, 576U, 1105U, 2112U})
        for (const std::size_t padding : {0U, 529U, 530U, 531U, 900U, 1151U}) {
            SCOPED_TRACE(std::to_string(delay) + " " + std::to_string(padding));
            expect_equal(with_delays(fixture("mono-44k.mp3"), delay, padding), -90);
        }
}

TEST(Mp3HalfRate, DecodesIntensityStereo) {
    Bytes bytes = fixture("joint-44k.mp3");
    constexpr std::uint8_t kIntensity = 0x10;
    int frames = 0;
    for_each_frame(bytes, [&](std::span<std::uint8_t> frame, const Mp3Header&) {
        if (frames++ % 3 != 0) frame[3] |= kIntensity;
    });
    ASSERT_GT(frames, 100);
    for (const int channel : {0, 1}) expect_equal(bytes, -90, channel);
}

TEST(Mp3HalfRate, DecodesMixedBlocks) {
    Bytes bytes = fixture("mono-44k.mp3");
    int mixed = 0;
    for_each_frame(bytes, [&](std::span<std::uint8_t> frame, const Mp3Header&) {
        for (const std::size_t granule : {18U, 18U + 59U}) {
            // Short blocks, and those that lead to and from them.
            const bool switching = field(frame, granule + 33, 1) == 1;
            if (!switching) continue;
            const std::size_t bit = granule + 36;
            frame[Mp3Header::kBytes + bit / 8] |= static_cast<std::uint8_t>(0x80 >> bit % 8);
            ++mixed;
        }
    });
    ASSERT_GT(mixed, 10);
    expect_equal(bytes, -90);
}

TEST(Mp3HalfRate, MakesSilenceOfDamagedFrames) {
    Bytes bytes = fixture("joint-44k.mp3");
    const std::size_t samples = read_mp3(bytes, kSampleRate).samples.size();
    int frames = 0;
    for_each_frame(bytes, [&](std::span<std::uint8_t> frame, const Mp3Header&) {
        if (++frames == 60) std::fill(frame.begin() + Mp3Header::kBytes, frame.end(), 0xFF);
    });
    for (const int channel : {0, 1}) {
        // Sound breaks off and begins at the edges of the silence.
        const Reading halved = expect_equal(bytes, -55, channel);
        EXPECT_EQ(halved.warnings, std::vector<std::string>{"DECODE_ERRORS_SKIPPED"});
        EXPECT_EQ(halved.samples.size(), samples);
        // Frame 60 without its edges, where the frames around it fade out.
        const std::size_t start = 60U * 1152 * 16000 / 44100;
        EXPECT_LT(rms(std::span(halved.samples).subspan(start + 100, 200)), 1e-4);
    }
}

TEST(Mp3HalfRate, SurvivesGarbageInTheSpectrum) {
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
        Bytes bytes = fixture("joint-44k.mp3");
        std::mt19937 generator(seed);
        for_each_frame(bytes, [&](std::span<std::uint8_t> frame, const Mp3Header&) {
            for (int i = 0; i < 3; ++i)
                frame[Mp3Header::kBytes + generator() % (frame.size() - Mp3Header::kBytes)] =
                    static_cast<std::uint8_t>(generator());
        });
        const Reading whole = read_mp3(bytes, kNoHalving);
        const Reading halved = read_mp3(bytes, kSampleRate);
        EXPECT_EQ(halved.samples.size(), whole.samples.size());
        EXPECT_EQ(halved.warnings, whole.warnings);
        for (const float sample : halved.samples) ASSERT_LE(std::abs(sample), 1.0F);
        EXPECT_EQ(read_mp3(bytes, kSampleRate).samples, halved.samples);
    }
}

/// Streams one after the other. Whole frames of each: after a part of a frame, what follows would
/// lie half a frame off at the halved rate.
Bytes one_after_the_other(std::initializer_list<const char*> names) {
    Bytes all;
    for (const char* name : names) put(all, with_delays(fixture(name), 576, 529));
    return all;
}

TEST(Mp3HalfRate, FollowsChannelsThatPartAndMeetAgain) {
    const Bytes bytes = one_after_the_other(
        {"equal-channels-44k.mp3", "joint-44k.mp3", "equal-channels-44k.mp3", "joint-44k.mp3"});
    for (const int channel : {0, 1}) expect_equal(bytes, -90, channel);
}

TEST(Mp3HalfRate, FollowsChangesBetweenMonoAndStereo) {
    expect_equal(one_after_the_other({"joint-44k.mp3", "mono-44k.mp3", "joint-44k.mp3"}), -60, 0);
    expect_equal(one_after_the_other({"mono-44k.mp3", "joint-44k.mp3", "mono-44k.mp3"}), -60, 0);
}

TEST(Mp3HalfRate, GivesTheSameBitsHoweverItIsRead) {
    const TemporaryFile file(fixture("joint-44k.mp3"));
    std::vector<float> at_once(2 * 100000);
    const std::size_t count = open(file, kSampleRate).read(at_once, CancelToken());
    at_once.resize(2 * count);
    Mp3Reader reader = open(file, kSampleRate);
    std::vector<float> in_pieces;
    std::vector<float> piece;
    std::mt19937 generator(1);
    do {
        piece.assign(2 * (1 + generator() % 999), 0.0F);
        const std::size_t size = piece.size();
        piece.resize(2 * reader.read(piece, CancelToken()));
        in_pieces.insert(in_pieces.end(), piece.begin(), piece.end());
        if (piece.size() < size) break;
    } while (true);
    EXPECT_EQ(in_pieces, at_once);
}

TEST(Mp3HalfRate, LeavesStreamsThatAreNotFarAboveTheWantedRate) {
    const TemporaryFile file(read_file(speech_fixture("jfk.mp3")));
    const Mp3Reader reader = open(file, kSampleRate);
    EXPECT_EQ(reader.frame_rate(), reader.info().sample_rate);
    const TemporaryFile faster(fixture("joint-44k.mp3"));
    EXPECT_EQ(open(faster, 22050).frame_rate(), 44100);
}

}  // namespace
}  // namespace wavepool::audio
