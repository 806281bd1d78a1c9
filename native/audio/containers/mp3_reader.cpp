#include "audio/containers/mp3_reader.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "framework/error.h"

namespace wavepool::audio {
namespace {

constexpr std::size_t kBufferBytes = 64 * 1024;
// Random bytes look like four frames in a row once in 2^60 positions.
constexpr std::size_t kFramesToTrust = 4;
constexpr std::size_t kFramesToResume = 2;
// A damaged frame may decode to anything.
constexpr float kMaxMagnitude = 16;
// Bytes after the last frame that need no warning: tags, padding.
constexpr std::size_t kQuietTrailingBytes = 4096;

[[noreturn]] void refuse(const std::string& why) {
    throw Error(ErrorCode::kInputUndecodable, "MP3: " + why);
}

bool is_tag(std::span<const std::uint8_t> bytes) {
    for (const char* tag : {"TAG", "APETAGEX", "ID3", "LYRICSBEGIN"})
        if (bytes.size() >= std::strlen(tag) &&
            std::memcmp(bytes.data(), tag, std::strlen(tag)) == 0)
            return true;
    return false;
}

}  // namespace

Mp3Reader::Mp3Reader(std::unique_ptr<ByteReader> bytes, std::size_t search_bytes,
                     const CancelToken& cancel)
    : bytes_(std::move(bytes)), buffer_(kBufferBytes) {
    find_first_frame(search_bytes, cancel);
    info_ = {"mp3", first_.layer == 3 ? "mp3" : "mp2", first_.sample_rate, first_.channels, 0};
    read_encoder_note(cancel);
    while (pcm_read_ == pcm_.size())
        if (!decode_frame(cancel)) refuse("no frame can be decoded");
}

// Whether at least `bytes` unread bytes are in the buffer, read if need be.
bool Mp3Reader::fill(std::size_t bytes, const CancelToken& cancel) {
    if (end_ - begin_ >= bytes) return true;
    if (bytes_ended_) return false;
    std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
              buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
    end_ -= begin_;
    begin_ = 0;
    const std::span<std::uint8_t> room = std::span(buffer_).subspan(end_);
    const std::size_t count = bytes_->read(room, cancel);
    bytes_ended_ = count < room.size();
    end_ += count;
    return end_ >= bytes;
}

std::span<const std::uint8_t> Mp3Reader::ahead(std::size_t offset) const {
    return std::span(buffer_).subspan(begin_ + offset, end_ - begin_ - offset);
}

// Whether `frames` matching frames start here; half of them are enough where the input ends then.
bool Mp3Reader::frames_follow(std::size_t frames, const CancelToken& cancel) {
    const std::size_t fewest = frames / 2;
    std::optional<Mp3Header> first;
    std::size_t offset = 0;
    for (std::size_t i = 0; i < frames; ++i) {
        if (!fill(offset + Mp3Header::kBytes, cancel)) return i >= fewest;
        const std::optional<Mp3Header> header = Mp3Header::parse(ahead(offset));
        if (!header || (first && !header->matches(*first)))
            return i >= fewest && is_tag(ahead(offset));
        if (!first) first = header;
        offset += header->frame_bytes;
        if (!fill(offset, cancel)) return i >= fewest;
    }
    return true;
}

void Mp3Reader::find_first_frame(std::size_t search_bytes, const CancelToken& cancel) {
    for (std::size_t passed = 0; passed <= search_bytes; ++passed, ++begin_) {
        if (!fill(Mp3Header::kBytes, cancel)) break;
        const std::optional<Mp3Header> header = Mp3Header::parse(ahead(0));
        if (!header || !frames_follow(kFramesToTrust, cancel)) continue;
        first_ = *header;
        return;
    }
    refuse("no consecutive frames found");
}

void Mp3Reader::read_encoder_note(const CancelToken& cancel) {
    if (!fill(first_.frame_bytes, cancel)) return;
    const std::optional<Mp3EncoderNote> note =
        Mp3EncoderNote::parse(first_, ahead(0).first(first_.frame_bytes));
    if (!note) return;
    begin_ += first_.frame_bytes;
    noted_frames_ = note->frames;
    drop_samples_ = note->delay_samples;
    padding_samples_ = note->padding_samples;
}

// The next whole frame of the stream, at begin_. Nothing at the end.
std::optional<Mp3Header> Mp3Reader::next_frame(const CancelToken& cancel) {
    std::size_t passed = 0;
    bool tag = false;
    for (; fill(Mp3Header::kBytes, cancel); ++begin_, ++passed) {
        const std::optional<Mp3Header> header = Mp3Header::parse(ahead(0));
        if (passed == 0) {
            fill(16, cancel);
            tag = is_tag(ahead(0));
        }
        if (!header || !header->matches(first_)) continue;
        if (passed > 0 && !frames_follow(kFramesToResume, cancel)) continue;
        if (!fill(header->frame_bytes, cancel)) {
            end_of_stream(end_ - begin_);
            return std::nullopt;
        }
        if (passed > 0 && !tag)
            warn("DECODE_ERRORS_SKIPPED", "bytes between the frames were passed over");
        return header;
    }
    if (passed > kQuietTrailingBytes && !tag)
        warn("DECODE_ERRORS_SKIPPED", "bytes after the last frame were passed over");
    end_of_stream(0);
    return std::nullopt;
}

void Mp3Reader::end_of_stream(std::size_t partial_bytes) {
    ended_ = true;
    if (partial_bytes > 0 || decoded_frames_ + 1 < noted_frames_)
        warn("TRUNCATED", "the input ends after " + std::to_string(decoded_frames_) + " frames" +
                              (noted_frames_ > 0 ? " of " + std::to_string(noted_frames_) : ""));
}

bool Mp3Reader::decode_frame(const CancelToken& cancel) {
    if (cancel.cancelled()) throw Error(ErrorCode::kCancelled, "decoding was cancelled");
    if (ended_) return false;
    const std::optional<Mp3Header> header = next_frame(cancel);
    if (!header) return false;
    const auto channels = static_cast<std::size_t>(info_.channels);
    pcm_.assign(kMaxMp3FrameSamples, 0.0F);
    const std::size_t samples = decoder_.decode(ahead(0).first(header->frame_bytes),
                                                std::span(pcm_).first<kMaxMp3FrameSamples>());
    begin_ += header->frame_bytes;
    pcm_read_ = 0;
    if (samples > 0) {
        const std::size_t count = samples * static_cast<std::size_t>(header->channels);
        for (float& sample : std::span(pcm_).first(count))
            if (!(std::abs(sample) <= kMaxMagnitude)) sample = 0;
        match_channels(samples, header->channels);
        ++decoded_frames_;
    } else if (decoded_frames_ > 0) {
        warn("DECODE_ERRORS_SKIPPED", "damaged frames became silence");
        pcm_.assign(header->frame_samples * channels, 0.0F);
        ++decoded_frames_;
    } else {
        // The start of a stream that was cut out of another: its first frames lack their past.
        pcm_.clear();
    }
    // Samples per channel that this frame stands for.
    std::size_t end = pcm_.empty() ? 0 : header->frame_samples;
    // Padding is dropped only where the stream really ends as its note says: streams are also
    // joined to longer ones.
    if (decoded_frames_ == noted_frames_ &&
        (!fill(Mp3Header::kBytes, cancel) || !Mp3Header::parse(ahead(0))))
        end -= std::min(padding_samples_, end);
    pcm_.resize(end * channels);
    const std::size_t dropped = std::min(drop_samples_, end);
    drop_samples_ -= dropped;
    pcm_read_ = dropped * channels;
    return true;
}

// A stream may change between mono and stereo; the reader keeps to the channels of its first frame.
void Mp3Reader::match_channels(std::size_t samples, int channels) {
    if (channels == info_.channels) {
        pcm_.resize(samples * static_cast<std::size_t>(channels));
        return;
    }
    if (info_.channels == 1) {
        for (std::size_t i = 0; i < samples; ++i) pcm_[i] = 0.5F * (pcm_[2 * i] + pcm_[2 * i + 1]);
        pcm_.resize(samples);
        return;
    }
    pcm_.resize(samples * 2);
    for (std::size_t i = samples; i-- > 0;) pcm_[2 * i] = pcm_[2 * i + 1] = pcm_[i];
}

std::size_t Mp3Reader::read(std::span<float> interleaved, const CancelToken& cancel) {
    std::size_t filled = 0;
    while (filled < interleaved.size()) {
        if (pcm_read_ == pcm_.size() && !decode_frame(cancel)) break;
        const std::size_t count = std::min(interleaved.size() - filled, pcm_.size() - pcm_read_);
        std::copy_n(pcm_.begin() + static_cast<std::ptrdiff_t>(pcm_read_), count,
                    interleaved.begin() + static_cast<std::ptrdiff_t>(filled));
        pcm_read_ += count;
        filled += count;
    }
    return filled / static_cast<std::size_t>(info_.channels);
}

}  // namespace wavepool::audio
