#include "audio/audio_input.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "audio/bytes/file_reader.h"
#include "audio/bytes/pipe_reader.h"
#include "audio/containers/flac_reader.h"
#include "audio/containers/mp3_reader.h"
#include "audio/containers/wav_reader.h"
#include "audio/sample_writer.h"
#include "framework/error.h"

namespace wavepool::audio {
namespace {

// Frames per step: 100 ms at any rate, so a step overshoots little and is soon cancelled.
constexpr int kStepsPerSecond = 10;

// The most bytes of junk before the first MP3 frame. The second limit is for files with a tag that
// lies about its size: there the tag itself is part of the junk.
constexpr std::size_t kMp3SearchBytes = 64 * 1024;
constexpr std::size_t kBrokenTagSearchBytes = 1024 * 1024;

constexpr std::size_t kId3HeaderBytes = 10;

class DecodedInput final : public AudioInput {
  public:
    DecodedInput(std::unique_ptr<FrameReader> reader, std::optional<int> channel)
        : reader_(std::move(reader)),
          writer_(reader_->info().sample_rate, reader_->info().channels, channel) {
        const auto frames = static_cast<std::size_t>(reader_->info().sample_rate / kStepsPerSecond);
        frames_.resize(frames * static_cast<std::size_t>(reader_->info().channels));
    }

    [[nodiscard]] const SourceInfo& info() const noexcept override { return reader_->info(); }
    [[nodiscard]] const std::shared_ptr<SampleStore>& store() const noexcept override {
        return writer_.store();
    }

    bool decode_until(std::int64_t sample, const CancelToken& cancel) override {
        while (!ended_ && store()->end() < sample) {
            if (cancel.cancelled()) throw Error(ErrorCode::kCancelled, "decoding was cancelled");
            step(cancel);
        }
        return ended_;
    }

    [[nodiscard]] std::vector<Warning> warnings() const override {
        std::vector<Warning> all = reader_->warnings();
        for (Warning& warning : writer_.warnings()) all.push_back(std::move(warning));
        return all;
    }

  private:
    void step(const CancelToken& cancel) {
        const auto channels = static_cast<std::size_t>(reader_->info().channels);
        const std::size_t count = reader_->read(frames_, cancel) * channels;
        writer_.write(std::span(frames_).first(count));
        ended_ = count < frames_.size();
        if (ended_) writer_.finish();
    }

    std::unique_ptr<FrameReader> reader_;
    SampleWriter writer_;
    std::vector<float> frames_;
    bool ended_ = false;
};

bool starts_with(std::span<const std::uint8_t> head, std::string_view text, std::size_t at = 0) {
    return head.size() >= at + text.size() &&
           std::memcmp(head.data() + at, text.data(), text.size()) == 0;
}

// Containers that may hold MPEG frames in pieces: never to be searched for them.
bool is_other_container(std::span<const std::uint8_t> head) {
    return starts_with(head, "RIFF") || starts_with(head, "OggS") || starts_with(head, "ftyp", 4) ||
           starts_with(head, "moov", 4) || starts_with(head, "mdat", 4) ||
           starts_with(head, "\x1A\x45\xDF\xA3") || starts_with(head, "FLV") ||
           starts_with(head, "\x30\x26\xB2\x75") || starts_with(head, "FORM") ||
           starts_with(head, "riff") || starts_with(head, "caff") ||
           starts_with(head, std::string_view("\x00\x00\x01\xBA", 4)) ||
           (starts_with(head, "G") && starts_with(head, "G", 188));
}

// The bytes that the ID3v2 tag at the head takes by its own word; 0: there is none.
std::uint64_t id3_bytes(std::span<const std::uint8_t> head) {
    if (!starts_with(head, "ID3") || head.size() < kId3HeaderBytes) return 0;
    std::uint64_t size = 0;
    for (std::size_t i = 6; i < kId3HeaderBytes; ++i) size = size << 7 | (head[i] & 0x7FU);
    const bool footer = (head[5] & 0x10) != 0;
    return kId3HeaderBytes + size + (footer ? kId3HeaderBytes : 0);
}

std::unique_ptr<FrameReader> open_mp3(const std::filesystem::path& file, std::uint64_t tag_bytes) {
    const CancelToken never;
    auto bytes = std::make_unique<FileReader>(file);
    const bool tag_fits = bytes->skip(tag_bytes, never);
    try {
        if (tag_fits) return std::make_unique<Mp3Reader>(std::move(bytes), kMp3SearchBytes, never);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::kInputUndecodable || tag_bytes == 0) throw;
    }
    bytes = std::make_unique<FileReader>(file);
    bytes->skip(kId3HeaderBytes, never);
    return std::make_unique<Mp3Reader>(std::move(bytes), kBrokenTagSearchBytes, never);
}

std::unique_ptr<FrameReader> open_reader(const std::filesystem::path& file) {
    const CancelToken never;
    auto bytes = std::make_unique<FileReader>(file);
    if (bytes->remaining() == 0) throw Error(ErrorCode::kInputEmpty, "the file is empty");

    std::array<std::uint8_t, 192> buffer{};
    std::uint64_t tag_bytes = 0;
    std::span<const std::uint8_t> head = std::span(buffer).first(bytes->peek(0, buffer));
    // Some taggers put a tag before a tag.
    for (int tags = 0; tags < 4 && id3_bytes(head) > 0; ++tags) {
        tag_bytes += id3_bytes(head);
        head = std::span(buffer).first(bytes->peek(tag_bytes, buffer));
    }
    if (starts_with(head, "fLaC")) {
        bytes->skip(tag_bytes, never);
        return std::make_unique<FlacReader>(std::move(bytes), never);
    }
    const bool riff =
        starts_with(head, "RIFF") || starts_with(head, "RF64") || starts_with(head, "BW64");
    if (riff && starts_with(head, "WAVE", 8)) {
        bytes->skip(tag_bytes, never);
        return std::make_unique<WavReader>(std::move(bytes), never);
    }
    if (is_other_container(head))
        throw Error(ErrorCode::kInputUndecodable, "a format other than WAV, MP3 and FLAC");
    return open_mp3(file, tag_bytes);
}

// Every error about a file names that file.
[[noreturn]] void rethrow_naming(const std::filesystem::path& file, const Error& error) {
    const std::string_view detail = error.what();
    if (detail.find(file.string()) != std::string_view::npos) throw error;
    throw Error(error.code(), file.string() + ": " + std::string(detail));
}

}  // namespace

std::unique_ptr<AudioInput> open_file(const std::filesystem::path& file,
                                      std::optional<int> channel) {
    try {
        return std::make_unique<DecodedInput>(open_reader(file), channel);
    } catch (const Error& error) {
        rethrow_naming(file, error);
    }
}

std::unique_ptr<AudioInput> open_pipe(int read_descriptor, int stall_timeout_ms,
                                      const CancelToken& cancel, std::optional<int> channel) {
    auto bytes = std::make_unique<PipeReader>(read_descriptor, stall_timeout_ms);
    return std::make_unique<DecodedInput>(std::make_unique<WavReader>(std::move(bytes), cancel),
                                          channel);
}

}  // namespace wavepool::audio
