#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "audio/audio_input.h"
#include "tests/support/audio_samples.h"

namespace wavepool::audio {
namespace {

constexpr int kPatienceMs = 20000;

class Pipe : public testing::Test {
  protected:
    void SetUp() override {
        int ends[2];
        ASSERT_EQ(::pipe(ends), 0);
        read_end_ = ends[0];
        write_end_ = ends[1];
    }

    void TearDown() override {
        close_write_end();
        EXPECT_EQ(::fcntl(read_end_, F_GETFD), -1) << "the read end is still open";
    }

    void send(std::span<const std::uint8_t> bytes) {
        while (!bytes.empty()) {
            const ssize_t count = ::write(write_end_, bytes.data(), bytes.size());
            ASSERT_GT(count, 0);
            bytes = bytes.subspan(static_cast<std::size_t>(count));
        }
    }

    void close_write_end() {
        if (write_end_ >= 0) ::close(write_end_);
        write_end_ = -1;
    }

    int read_end_ = -1;
    int write_end_ = -1;
};

/// What ffmpeg writes to a pipe.
Bytes streamed_wav(std::span<const float> samples, int rate = 16000, int channels = 1) {
    WavParts wav = wav16(samples, rate, channels);
    wav.override_sizes = true;
    wav.riff_size = wav.data_size = 0xFFFFFFFF;
    put(wav.before_data, "LIST");
    put32(wav.before_data, 26);
    wav.before_data.insert(wav.before_data.end(), 26, 'x');
    return wav.bytes();
}

TEST_F(Pipe, DecodesAStreamOfUnknownLength) {
    const std::vector<float> samples = sine(440, 48000, 480000);
    std::thread writer([&] {
        send(streamed_wav(samples, 48000));
        close_write_end();
    });
    Decoded decoded;
    {
        const auto input = open_pipe(read_end_, kPatienceMs, CancelToken());
        decoded = decode_all(*input);
    }
    writer.join();
    EXPECT_EQ(decoded.samples.size(), 160000U);
    EXPECT_TRUE(decoded.warnings.empty());
    EXPECT_EQ(decoded.info.sample_rate, 48000);
}

TEST_F(Pipe, GivesTheSameBitsAsAFileHoweverTheBytesCome) {
    const Bytes bytes = streamed_wav(noise(30001, 1), 44100);
    std::thread writer([&] {
        for (std::size_t at = 0; at < bytes.size(); at += 777)
            send(std::span(bytes).subspan(at, std::min<std::size_t>(777, bytes.size() - at)));
        close_write_end();
    });
    const Decoded decoded = decode_all(*open_pipe(read_end_, kPatienceMs, CancelToken()));
    writer.join();
    EXPECT_EQ(decoded.samples, decode(bytes).samples);
}

TEST_F(Pipe, HoldsLittleOfALongStream) {
    constexpr int kMinutes = 30;
    const Bytes minute = pcm16(noise(60 * 16000, 2));
    std::thread writer([&] {
        send(streamed_wav({}));
        for (int i = 0; i < kMinutes; ++i) send(minute);
        close_write_end();
    });
    std::size_t most_bytes = 0;
    std::int64_t end = 0;
    {
        const auto input = open_pipe(read_end_, kPatienceMs, CancelToken());
        for (bool ended = false; !ended;) {
            ended = input->decode_until(end + 5 * kSampleRate, CancelToken());
            most_bytes = std::max(most_bytes, input->store()->resident_bytes());
            end = input->store()->end();
            input->store()->release_before(end);
        }
    }
    writer.join();
    EXPECT_EQ(end, std::int64_t{kMinutes} * 60 * kSampleRate);
    EXPECT_LT(most_bytes, std::size_t{2} << 20);
}

TEST_F(Pipe, WhoseWriterStallsIsUndecodable) {
    EXPECT_EQ(failure_of([&] { (void)open_pipe(read_end_, 20, CancelToken()); }),
              ErrorCode::kInputUndecodable);
}

TEST_F(Pipe, WhoseWriterStallsLaterKeepsWhatCame) {
    send(streamed_wav(noise(16000, 3)));
    const auto input = open_pipe(read_end_, 20, CancelToken());
    EXPECT_EQ(failure_of([&] { input->decode_until(1 << 30, CancelToken()); }),
              ErrorCode::kInputUndecodable);
    EXPECT_GE(input->store()->end(), 14000);
}

TEST_F(Pipe, StopsWaitingWhenCancelled) {
    const CancelToken cancel = CancelToken::create();
    std::thread canceller([&] { cancel.cancel(); });
    EXPECT_EQ(failure_of([&] { (void)open_pipe(read_end_, kPatienceMs, cancel); }),
              ErrorCode::kCancelled);
    canceller.join();
}

TEST_F(Pipe, StopsInTheMiddleWhenCancelled) {
    send(streamed_wav(noise(8000, 4)));
    const auto input = open_pipe(read_end_, kPatienceMs, CancelToken());
    const CancelToken cancel = CancelToken::create();
    std::thread canceller([&] { cancel.cancel(); });
    EXPECT_EQ(failure_of([&] { input->decode_until(1 << 30, cancel); }), ErrorCode::kCancelled);
    canceller.join();
}

TEST_F(Pipe, WithoutBytesIsUndecodable) {
    close_write_end();
    EXPECT_EQ(failure_of([&] { (void)open_pipe(read_end_, kPatienceMs, CancelToken()); }),
              ErrorCode::kInputUndecodable);
}

TEST_F(Pipe, WithAHeaderOnlyIsEmpty) {
    send(streamed_wav({}));
    close_write_end();
    EXPECT_EQ(failure_of([&] { (void)open_pipe(read_end_, kPatienceMs, CancelToken()); }),
              ErrorCode::kInputEmpty);
}

TEST_F(Pipe, WithSomethingElseIsUndecodable) {
    send(Bytes(5000, 'x'));
    close_write_end();
    EXPECT_EQ(failure_of([&] { (void)open_pipe(read_end_, kPatienceMs, CancelToken()); }),
              ErrorCode::kInputUndecodable);
}

}  // namespace
}  // namespace wavepool::audio
