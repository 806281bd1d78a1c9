#include "audio/containers/flac_reader.h"

#include <algorithm>
#include <string>
#include <utility>

#include "framework/error.h"

namespace wavepool::audio {
namespace {

constexpr std::size_t kMarkerBytes = 4;
constexpr std::size_t kBlockHeaderBytes = 4;
constexpr std::size_t kStreamInfoBytes = 34;
constexpr std::uint8_t kLastBlock = 0x80;
// After the last byte the decoder still holds a buffer, and in it a few frames at most.
constexpr int kAttemptsAfterEnd = 16;

[[noreturn]] void refuse(const std::string& why) {
    throw Error(ErrorCode::kInputUndecodable, "FLAC: " + why);
}

}  // namespace

FlacReader::FlacReader(std::unique_ptr<ByteReader> bytes, const CancelToken& cancel)
    : bytes_(std::move(bytes)) {
    read_metadata(cancel);
    const bool frames_follow = bytes_->remaining().value_or(1) > 0;
    cancel_ = cancel;
    decoder_.emplace([this](std::span<std::uint8_t> out) { return feed(out); });
    if (failure_) std::rethrow_exception(failure_);
    if (!decoder_->valid()) refuse("damaged stream information");
    info_ = {"flac", "flac", decoder_->sample_rate(), decoder_->channels(),
             decoder_->bits_per_sample()};
    if (info_.sample_rate < kMinSampleRate || info_.sample_rate > kMaxSampleRate)
        refuse("a sample rate of " + std::to_string(info_.sample_rate) + " Hz");
    if (info_.channels < 1 || info_.channels > static_cast<int>(first_frame_.size()))
        refuse(std::to_string(info_.channels) + " channels");
    if (!frames_follow)
        throw Error(ErrorCode::kInputEmpty, "the FLAC header is followed by no frames");

    const auto channels = static_cast<std::size_t>(info_.channels);
    if (decode(std::span(first_frame_).first(channels), cancel) == 0)
        refuse("no frame can be decoded");
    first_frame_pending_ = true;
}

void FlacReader::read_metadata(const CancelToken& cancel) {
    if (bytes_->read(head_, cancel) < head_.size()) refuse("the header is cut off");
    const std::uint8_t* info = head_.data() + kMarkerBytes;
    const bool last = (info[0] & kLastBlock) != 0;
    if ((info[0] & 0x7F) != 0 || info[1] != 0 || info[2] != 0 || info[3] != kStreamInfoBytes)
        refuse("stream information is missing");
    const std::uint8_t* frames = head_.data() + kMarkerBytes + kBlockHeaderBytes + 13;
    declared_frames_ = std::uint64_t{frames[0] & 0x0FU} << 32 | std::uint64_t{frames[1]} << 24 |
                       std::uint64_t{frames[2]} << 16 | std::uint64_t{frames[3]} << 8 | frames[4];
    head_[kMarkerBytes] |= kLastBlock;

    for (bool more = !last; more;) {
        std::array<std::uint8_t, kBlockHeaderBytes> block{};
        if (bytes_->read(block, cancel) < block.size()) return;
        more = (block[0] & kLastBlock) == 0;
        const std::uint64_t size =
            std::uint64_t{block[1]} << 16 | std::uint64_t{block[2]} << 8 | block[3];
        // A block that claims to end after the file: the decoder finds the first frame itself.
        const bool lies = size > bytes_->remaining().value_or(size);
        if (lies || !bytes_->skip(size, cancel)) {
            warn("HEADER_SIZE_IGNORED", "a metadata block claims to be longer than the file");
            return;
        }
    }
}

std::size_t FlacReader::feed(std::span<std::uint8_t> out) noexcept {
    const std::size_t from_head = std::min(out.size(), head_.size() - head_read_);
    std::copy_n(head_.begin() + static_cast<std::ptrdiff_t>(head_read_), from_head, out.begin());
    head_read_ += from_head;
    if (from_head == out.size()) return from_head;
    std::size_t count = 0;
    try {
        count = bytes_->read(out.subspan(from_head), cancel_);
    } catch (...) {
        failure_ = std::current_exception();
    }
    if (from_head + count < out.size()) bytes_ended_ = true;
    return from_head + count;
}

std::size_t FlacReader::decode(std::span<float> interleaved, const CancelToken& cancel) {
    cancel_ = cancel;
    const auto channels = static_cast<std::size_t>(info_.channels);
    std::size_t frames = 0;
    int attempts_after_end = 0;
    while (!ended_ && frames < interleaved.size() / channels) {
        const std::size_t wanted = interleaved.size() / channels - frames;
        const std::size_t count =
            decoder_->read(interleaved.subspan(frames * channels, wanted * channels));
        if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
        frames += count;
        decoded_frames_ += count;
        if (count == wanted) break;
        // The decoder stops at a damaged frame; called again, it looks for the next one.
        if (bytes_ended_ && ++attempts_after_end > kAttemptsAfterEnd) end_of_stream();
    }
    return frames;
}

void FlacReader::end_of_stream() {
    ended_ = true;
    if (declared_frames_ <= decoded_frames_ || decoded_frames_ == 0) return;
    const std::string frames = std::to_string(decoded_frames_) + " of " +
                               std::to_string(declared_frames_) + " samples could be decoded";
    if (decoder_->block_end() >= declared_frames_)
        warn("DECODE_ERRORS_SKIPPED", frames);
    else
        warn("TRUNCATED", frames);
}

std::size_t FlacReader::read(std::span<float> interleaved, const CancelToken& cancel) {
    if (!first_frame_pending_ || interleaved.empty()) return decode(interleaved, cancel);
    const auto channels = static_cast<std::size_t>(info_.channels);
    std::copy_n(first_frame_.begin(), channels, interleaved.begin());
    first_frame_pending_ = false;
    return 1 + decode(interleaved.subspan(channels), cancel);
}

}  // namespace wavepool::audio
