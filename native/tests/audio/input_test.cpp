#include "audio/audio_input.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/support/audio_samples.h"

namespace wavepool::audio {
namespace {

Bytes mp3_bytes() { return read_file(speech_fixture("jfk.mp3")); }
Bytes flac_bytes() { return read_file(speech_fixture("sense-0880.flac")); }

Bytes random_bytes(std::size_t count, std::uint32_t seed) {
    std::mt19937 generator(seed);
    Bytes bytes(count);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(generator());
    return bytes;
}

Bytes joined(Bytes a, const Bytes& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

/// An ID3v2.3 tag with one frame; `claimed` replaces the size in its header.
Bytes id3_tag(std::string_view frame_id, const Bytes& content, std::size_t claimed = 0) {
    Bytes frame;
    put(frame, frame_id);
    for (int shift = 24; shift >= 0; shift -= 8)
        frame.push_back(static_cast<std::uint8_t>(content.size() >> shift));
    put16(frame, 0);
    frame.insert(frame.end(), content.begin(), content.end());
    Bytes tag;
    put(tag, std::string_view("ID3\3\0\0", 6));
    const std::size_t size = claimed != 0 ? claimed : frame.size();
    for (int shift = 21; shift >= 0; shift -= 7)
        tag.push_back(static_cast<std::uint8_t>(size >> shift & 0x7F));
    return joined(tag, frame);
}

/// Says JPEG, holds the beginning of a PNG and noise.
Bytes broken_picture(std::size_t size) {
    Bytes content;
    put(content, std::string_view("\0image/jpeg\0\3\0\x89PNG\r\n\x1A\n", 22));
    return joined(content, random_bytes(size, 5));
}

/// The MPEG frames of the fixture, without the tag in front of them.
Bytes mp3_frames() {
    Bytes bytes = mp3_bytes();
    const std::size_t tag = 10 + (std::size_t{bytes[6]} << 21 | std::size_t{bytes[7]} << 14 |
                                  std::size_t{bytes[8]} << 7 | bytes[9]);
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(tag));
    return bytes;
}

TEST(AudioInput, DecodesMp3) {
    const Decoded decoded = decode(mp3_bytes());
    EXPECT_EQ(decoded.info.container, "mp3");
    EXPECT_EQ(decoded.info.codec, "mp3");
    EXPECT_EQ(decoded.info.sample_rate, 16000);
    // The samples that the encoder added at both ends have been dropped.
    EXPECT_EQ(decoded.samples.size(), 176000U);
    EXPECT_NEAR(rms(decoded.samples), 0.142, 0.005);
    EXPECT_TRUE(decoded.warnings.empty());
}

TEST(AudioInput, DecodesFlac) {
    const Decoded decoded = decode(flac_bytes());
    EXPECT_EQ(decoded.info.container, "flac");
    EXPECT_EQ(decoded.info.codec, "flac");
    EXPECT_EQ(decoded.info.bits_per_sample, 16);
    EXPECT_EQ(decoded.samples.size(), 47840U);
    EXPECT_NEAR(rms(decoded.samples), 0.0441, 0.0005);
    EXPECT_TRUE(decoded.warnings.empty());
}

TEST(AudioInput, RecognizesByContentNotByName) {
    EXPECT_EQ(decode(flac_bytes(), "speech.mp3").info.container, "flac");
    EXPECT_EQ(decode(mp3_bytes(), "speech.wav").info.container, "mp3");
    EXPECT_EQ(decode(wav16(noise(100, 1)).bytes(), "speech.flac").info.container, "wav");
    const Bytes tag = id3_tag("TIT2", Bytes(300, 'x'));
    EXPECT_EQ(decode(joined(tag, flac_bytes())).info.container, "flac");
    EXPECT_EQ(decode(joined(tag, wav16(noise(100, 1)).bytes())).info.container, "wav");
}

TEST(AudioInput, IgnoresBrokenPicturesAndTagsInMp3) {
    const std::vector<float> plain = decode(mp3_frames()).samples;
    Bytes id3v1;
    put(id3v1, "TAG");
    id3v1.resize(128, ' ');
    const Bytes picture = id3_tag("APIC", broken_picture(200000));
    const Bytes twice = joined(id3_tag("TIT2", Bytes(50, 'x')), picture);
    for (const Bytes& tag : {picture, twice}) {
        const Decoded decoded = decode(joined(joined(tag, mp3_frames()), id3v1));
        EXPECT_EQ(decoded.samples, plain);
        EXPECT_TRUE(decoded.warnings.empty());
    }
    // A tag that claims far too much, or too little.
    for (const std::size_t claimed : {std::size_t{200000000}, std::size_t{1000}}) {
        const Bytes tag = id3_tag("APIC", broken_picture(20000), claimed);
        EXPECT_EQ(decode(joined(tag, mp3_frames())).samples, plain) << claimed;
    }
}

TEST(AudioInput, PassesOverJunkBeforeAndBetweenMp3Frames) {
    const Bytes frames = mp3_frames();
    const std::vector<float> plain = decode(frames).samples;
    EXPECT_EQ(decode(joined(random_bytes(3000, 6), frames)).samples, plain);

    Bytes damaged = frames;
    const Bytes junk = random_bytes(700, 7);
    damaged.insert(damaged.begin() + 20000, junk.begin(), junk.end());
    const Decoded decoded = decode(damaged);
    EXPECT_TRUE(decoded.warned("DECODE_ERRORS_SKIPPED"));
    EXPECT_NEAR(static_cast<double>(decoded.samples.size()), static_cast<double>(plain.size()),
                4 * 1152);
}

TEST(AudioInput, DecodesRepeatedMp3Streams) {
    const Bytes tagged = joined(id3_tag("APIC", broken_picture(5000)), mp3_frames());
    const Decoded decoded = decode(joined(tagged, tagged));
    EXPECT_NEAR(static_cast<double>(decoded.samples.size()) / 16000, 22.0, 0.2);
}

TEST(AudioInput, GivesWhatAFileThatBreaksOffHolds) {
    for (const Bytes& whole : {mp3_bytes(), flac_bytes(), wav16(noise(48000, 2)).bytes()}) {
        const Decoded all = decode(whole);
        const Decoded half = decode(std::span(whole).first(whole.size() / 2 + 1));
        EXPECT_TRUE(half.warned("TRUNCATED")) << all.info.container;
        EXPECT_GT(half.samples.size(), all.samples.size() * 35 / 100);
        EXPECT_LT(half.samples.size(), all.samples.size() * 65 / 100);
        EXPECT_TRUE(
            std::equal(half.samples.begin(), half.samples.end() - 1200, all.samples.begin()));
    }
}

TEST(AudioInput, LeavesOutDamagedFlacFrames) {
    Bytes bytes = flac_bytes();
    for (std::size_t i = 0; i < 50; ++i) bytes[bytes.size() / 2 + i] ^= 0x5A;
    const Decoded decoded = decode(bytes);
    EXPECT_TRUE(decoded.warned("DECODE_ERRORS_SKIPPED"));
    EXPECT_GT(decoded.samples.size(), 47840U - 3 * 4608);
    EXPECT_LT(decoded.samples.size(), 47840U);
}

TEST(AudioInput, SurvivesFlacMetadataThatLies) {
    Bytes bytes = flac_bytes();
    ASSERT_EQ(bytes[4] & 0x80, 0) << "the fixture has more metadata than its stream information";
    bytes[42 + 1] = 0xFF;
    const Decoded decoded = decode(bytes);
    EXPECT_EQ(decoded.samples.size(), 47840U);
    EXPECT_TRUE(decoded.warned("HEADER_SIZE_IGNORED"));
}

TEST(AudioInput, NeverPlaysOtherBytesAsSound) {
    Bytes text;
    while (text.size() < 300000)
        put(text, "The quick brown fox jumps over the lazy dog. \xFF\xFE\n");
    EXPECT_EQ(failure_of_opening(text, "notes.mp3"), ErrorCode::kInputUndecodable);
    EXPECT_EQ(failure_of_opening(Bytes(100000, 0xFF), "ones.mp3"), ErrorCode::kInputUndecodable);
    EXPECT_EQ(failure_of_opening(Bytes(100000, 0), "zeros.mp3"), ErrorCode::kInputUndecodable);
    EXPECT_EQ(failure_of_opening(Bytes{'x'}, "x.mp3"), ErrorCode::kInputUndecodable);
    EXPECT_EQ(failure_of_opening(random_bytes(1000000, 1), "random.mp3"),
              ErrorCode::kInputUndecodable);
    for (std::uint32_t seed = 2; seed < 60; ++seed)
        EXPECT_EQ(failure_of_opening(random_bytes(20000, seed)), ErrorCode::kInputUndecodable)
            << seed;
}

TEST(AudioInput, LeavesOtherContainersToOthersThoughTheyHoldMp3Frames) {
    for (const std::string_view head :
         {std::string_view("OggS\0\2\0\0", 8),
          std::string_view("\0\0\0\x18"
                           "ftypM4A ",
                           12),
          std::string_view("\x1A\x45\xDF\xA3\1\0\0\0", 8),
          std::string_view("RIFF\0\1\0\0AVI LIST", 16), std::string_view("FORM\0\0\1\0AIFF", 12)}) {
        Bytes bytes;
        put(bytes, head);
        EXPECT_EQ(failure_of_opening(joined(bytes, mp3_frames())), ErrorCode::kInputUndecodable);
    }
}

TEST(AudioInput, NamesTheFileThatCannotBeOpened) {
    const TemporaryFile file(Bytes(1000, 'x'), "notes.mp3");
    try {
        (void)open_file(file.path());
        FAIL();
    } catch (const Error& error) {
        EXPECT_NE(std::string_view(error.what()).find("notes.mp3"), std::string_view::npos);
    }
}

TEST(AudioInput, RefusesWhatIsNoFileWithoutHanging) {
    const TemporaryFile file(Bytes{});
    EXPECT_EQ(failure_of([&] { (void)open_file(file.path()); }), ErrorCode::kInputEmpty);
    const std::filesystem::path folder = file.path().parent_path();
    EXPECT_EQ(failure_of([&] { (void)open_file(folder); }), ErrorCode::kInvalidRequest);
    EXPECT_EQ(failure_of([&] { (void)open_file(folder / "missing"); }), ErrorCode::kInputNotFound);
    EXPECT_EQ(failure_of([&] { (void)open_file(file.path() / "below"); }),
              ErrorCode::kInputNotFound);
    EXPECT_EQ(failure_of([&] { (void)open_file("/dev/zero"); }), ErrorCode::kInvalidRequest);
    const std::filesystem::path fifo = folder / "fifo";
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    EXPECT_EQ(failure_of([&] { (void)open_file(fifo); }), ErrorCode::kInvalidRequest);
    if (::geteuid() != 0) {
        const TemporaryFile secret(flac_bytes());
        std::filesystem::permissions(secret.path(), std::filesystem::perms::none);
        EXPECT_EQ(failure_of([&] { (void)open_file(secret.path()); }), ErrorCode::kInputNotFound);
    }
}

TEST(AudioInput, GivesTheSameBitsWhateverTheStep) {
    const Bytes stereo = wav16(interleave({noise(100000, 3), noise(100000, 4)}), 44100, 2).bytes();
    for (const Bytes& bytes : {stereo, mp3_bytes(), flac_bytes()}) {
        const TemporaryFile file(bytes);
        const std::vector<float> whole = decode_all(*open_file(file.path()), 1 << 30).samples;
        for (const std::int64_t step : {1, 1000, 16000})
            EXPECT_EQ(decode_all(*open_file(file.path()), step).samples, whole) << step;
    }
}

TEST(AudioInput, DecodesLittleFurtherThanAsked) {
    for (const int rate : {1000, 16000, 48000}) {
        const TemporaryFile file(
            wav16(noise(static_cast<std::size_t>(rate) * 20, 5), rate).bytes());
        const auto input = open_file(file.path());
        EXPECT_EQ(input->store()->end(), 0);
        for (const std::int64_t sample : {1, 16000, 100000}) {
            EXPECT_FALSE(input->decode_until(sample, CancelToken()));
            EXPECT_GE(input->store()->end(), sample);
            EXPECT_LE(input->store()->end(), sample + 16000);
        }
        EXPECT_TRUE(input->decode_until(1 << 30, CancelToken()));
        EXPECT_TRUE(input->decode_until(1, CancelToken()));
        EXPECT_EQ(input->store()->end(), 320000);
    }
}

TEST(AudioInput, StopsWhenCancelledAndKeepsWhatItHas) {
    const TemporaryFile file(wav16(noise(320000, 6)).bytes());
    const auto input = open_file(file.path());
    input->decode_until(16000, CancelToken());
    const CancelToken cancel = CancelToken::create();
    cancel.cancel();
    EXPECT_EQ(failure_of([&] { input->decode_until(320000, cancel); }), ErrorCode::kCancelled);
    std::vector<float> kept(16000);
    input->store()->copy(0, kept);
    EXPECT_GT(rms(kept), 0.1);
}

TEST(AudioInput, GivesOneChannelAsIfItWereAllThereIs) {
    const std::vector<std::vector<float>> channels{noise(50000, 3), noise(50000, 4, 0.0F),
                                                   noise(50000, 5)};
    for (const int rate : {16000, 8000}) {
        const TemporaryFile file(wav16(interleave(channels), rate, 3).bytes());
        for (const int channel : {0, 1, 2}) {
            const auto one = open_file(file.path(), channel);
            const Decoded decoded = decode_all(*one, 1000);
            const TemporaryFile alone(wav16(channels[channel], rate).bytes());
            EXPECT_EQ(decoded.samples, decode_all(*open_file(alone.path())).samples) << channel;
            EXPECT_EQ(one->info().channels, 3);
            EXPECT_TRUE(one->warnings().empty());
        }
    }
}

TEST(AudioInput, RefusesAChannelThatIsNotThere) {
    const TemporaryFile file(wav16(interleave({noise(100, 1), noise(100, 2)}), 16000, 2).bytes());
    for (const int channel : {-1, 2, 63})
        EXPECT_EQ(failure_of([&] { (void)open_file(file.path(), channel); }),
                  ErrorCode::kInvalidRequest);
}

TEST(AudioInput, KeepsOneSidedSpeechAtFullLevelAndSaysSo) {
    const std::vector<float> speech = decode(flac_bytes()).samples;
    const std::vector<float> silence(speech.size(), 0.0F);
    for (const auto& frames : {interleave({speech, silence}), interleave({silence, speech})}) {
        const Decoded decoded = decode(wav16(frames, 16000, 2).bytes());
        EXPECT_EQ(decoded.samples, speech);
        EXPECT_EQ(decoded.warnings, std::vector<std::string>{"ONE_CHANNEL_SILENT"});
    }
}

TEST(AudioInput, KeepsSpeechInAntiPhaseAndSaysSo) {
    const std::vector<float> speech = decode(flac_bytes()).samples;
    std::vector<float> turned = speech;
    for (float& sample : turned) sample = -sample;
    const Decoded decoded = decode(wav16(interleave({speech, turned}), 16000, 2).bytes());
    EXPECT_LT(error_db(decoded.samples, speech), -80);
    EXPECT_EQ(decoded.warnings, std::vector<std::string>{"ANTI_PHASE"});
}

TEST(AudioInput, StaysWithinFullScaleAtAnyRate) {
    for (const int rate : {8000, 16000, 44100, 48000}) {
        const std::vector<float> loud = sine(997, rate, static_cast<std::size_t>(rate), 1.0);
        const Decoded decoded = decode(wav16(interleave({loud, loud}), rate, 2).bytes());
        for (const float sample : decoded.samples) ASSERT_LE(std::abs(sample), 1.0F);
        // Not cut: the tone is as pure as its 16 bits.
        EXPECT_LT(
            error_db(std::span(decoded.samples).subspan(2000, 12000),
                     std::span<const float>(sine(997, 16000, 16000, 1.0)).subspan(2000, 12000)),
            -75)
            << rate;
    }
}

}  // namespace
}  // namespace wavepool::audio
