#include "audio/containers/wav_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "framework/error.h"

namespace wavepool::audio {
namespace {

constexpr std::uint32_t four_cc(const char (&text)[5]) {
    std::uint32_t id = 0;
    for (int i = 3; i >= 0; --i) id = id << 8 | static_cast<std::uint8_t>(text[i]);
    return id;
}

constexpr int kTagPcm = 1;
constexpr int kTagFloat = 3;
constexpr int kTagALaw = 6;
constexpr int kTagMuLaw = 7;
constexpr int kTagExtensible = 0xFFFE;
constexpr std::uint32_t kPlainFormatBytes = 16;

// These are bytes 2 to 15 of every KSDATAFORMAT_SUBTYPE_… that stands for a plain format tag.
constexpr std::array<std::uint8_t, 14> kSubtypeTail{0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x80,
                                                    0x00, 0x00, 0xAA, 0x00, 0x38, 0x9B, 0x71};

// Writers that cannot seek back leave 0, all ones, or a little less than 2 GiB (sox).
constexpr std::uint64_t kPlaceholderFrom = 0x7FFFF000;

// Tags and sector padding after the data are shorter than this; sound that a stale size hides is
// longer.
constexpr std::uint64_t kMaxTrailingBytes = 4096;

std::uint32_t u32(const std::uint8_t* at) {
    return std::uint32_t{at[0]} | std::uint32_t{at[1]} << 8 | std::uint32_t{at[2]} << 16 |
           std::uint32_t{at[3]} << 24;
}

int u16(const std::uint8_t* at) { return at[0] | at[1] << 8; }

std::uint64_t u64(const std::uint8_t* at) {
    return std::uint64_t{u32(at)} | std::uint64_t{u32(at + 4)} << 32;
}

bool is_placeholder(std::uint64_t size) { return size == 0 || size >= kPlaceholderFrom; }

bool is_chunk_id(std::uint32_t id) {
    for (int i = 0; i < 4; ++i, id >>= 8) {
        const std::uint32_t letter = id & 0xFF;
        const bool printable = letter >= 0x20 && letter < 0x7F;
        if (!printable) return false;
    }
    return true;
}

[[noreturn]] void refuse(const std::string& why) {
    throw Error(ErrorCode::kInputUndecodable, "WAV: " + why);
}

}  // namespace

WavReader::WavReader(std::unique_ptr<ByteReader> bytes, const CancelToken& cancel)
    : bytes_(std::move(bytes)) {
    read_headers(cancel);
    first_frame_bytes_ = read_frames(1, cancel) * frame_bytes_;
    if (first_frame_bytes_ == 0)
        throw Error(ErrorCode::kInputEmpty, "the WAV header is followed by no samples");
}

void WavReader::read_headers(const CancelToken& cancel) {
    std::array<std::uint8_t, 12> riff{};
    if (bytes_->read(riff, cancel) < riff.size()) refuse("the header is cut off");
    const std::uint32_t id = u32(riff.data());
    if ((id != four_cc("RIFF") && id != four_cc("RF64") && id != four_cc("BW64")) ||
        u32(riff.data() + 8) != four_cc("WAVE"))
        refuse("no RIFF header");

    ChunkHeader chunk;
    while (next_chunk(chunk, cancel)) {
        if (chunk.id == four_cc("data")) {
            if (frame_bytes_ == 0) refuse("samples come before their format");
            const bool large = chunk.size == 0xFFFFFFFF && large_data_size_;
            return set_extent(large ? *large_data_size_ : chunk.size);
        }
        if (chunk.id == four_cc("fmt ")) {
            read_format(chunk, cancel);
        } else if (chunk.id == four_cc("ds64") && chunk.size >= 16) {
            std::array<std::uint8_t, 16> sizes{};
            if (bytes_->read(sizes, cancel) < sizes.size()) break;
            large_data_size_ = u64(sizes.data() + 8);
            skip_chunk(chunk, sizes.size(), cancel);
        } else {
            skip_chunk(chunk, 0, cancel);
        }
    }
    if (frame_bytes_ == 0) refuse("no format chunk");
    left_ = 0;
}

bool WavReader::next_chunk(ChunkHeader& chunk, const CancelToken& cancel) {
    std::array<std::uint8_t, 8> header{};
    std::span<std::uint8_t> rest(header);
    if (unread_) {
        header[0] = *unread_;
        rest = rest.subspan(1);
        unread_.reset();
    }
    if (bytes_->read(rest, cancel) < rest.size()) return false;
    chunk = {u32(header.data()), u32(header.data() + 4)};
    const std::optional<std::uint64_t> remaining = bytes_->remaining();
    if (!remaining || chunk.id == four_cc("data") || chunk.size <= *remaining) return true;
    if (chunk.id == four_cc("fmt ")) {
        warn("HEADER_SIZE_IGNORED", "the format chunk claims to be longer than the file");
        chunk.size = kPlainFormatBytes;
        return true;
    }
    return find_known_chunk(chunk, cancel);
}

// A chunk that claims to end after the file: the samples may begin inside of what it claims.
bool WavReader::find_known_chunk(ChunkHeader& chunk, const CancelToken& cancel) {
    std::array<std::uint8_t, 4096> window{};
    for (std::uint64_t ahead = 0;; ahead += window.size() - 7) {
        if (cancel.cancelled()) throw Error(ErrorCode::kCancelled, "decoding was cancelled");
        const std::size_t count = bytes_->peek(ahead, window);
        for (std::size_t i = 0; i + 8 <= count; ++i) {
            const std::uint32_t id = u32(window.data() + i);
            const bool wanted = frame_bytes_ == 0 ? id == four_cc("fmt ") : id == four_cc("data");
            if (!wanted) continue;
            warn("HEADER_SIZE_IGNORED", "a chunk claims to be longer than the file");
            bytes_->skip(ahead + i + 8, cancel);
            chunk = {id, u32(window.data() + i + 4)};
            return true;
        }
        if (count < window.size()) return false;
    }
}

void WavReader::skip_chunk(const ChunkHeader& chunk, std::uint64_t already_read,
                           const CancelToken& cancel) {
    bytes_->skip(chunk.size - std::min<std::uint64_t>(already_read, chunk.size), cancel);
    if (chunk.size % 2 == 0) return;
    std::array<std::uint8_t, 1> padding{};
    if (bytes_->read(padding, cancel) == 1 && padding[0] != 0) unread_ = padding[0];
}

void WavReader::read_format(const ChunkHeader& chunk, const CancelToken& cancel) {
    std::array<std::uint8_t, 40> format{};
    const std::size_t size = std::min<std::size_t>(chunk.size, format.size());
    if (size < 14 || bytes_->read(std::span(format).first(size), cancel) < size)
        refuse("the format chunk is cut off");
    skip_chunk(chunk, size, cancel);

    int tag = u16(format.data());
    info_.container = "wav";
    info_.channels = u16(format.data() + 2);
    const std::uint32_t rate = u32(format.data() + 4);
    const auto frame_bytes = static_cast<std::size_t>(u16(format.data() + 12));
    const int bits = size >= 16 ? u16(format.data() + 14) : 8;
    if (tag == kTagExtensible) {
        if (size < 40 || !std::equal(kSubtypeTail.begin(), kSubtypeTail.end(), format.data() + 26))
            refuse("unknown extensible format");
        tag = u16(format.data() + 24);
    }
    if (info_.channels < 1 || info_.channels > kMaxChannels)
        refuse(std::to_string(info_.channels) + " channels");
    if (rate < static_cast<std::uint32_t>(kMinSampleRate) ||
        rate > static_cast<std::uint32_t>(kMaxSampleRate))
        refuse("a sample rate of " + std::to_string(rate) + " Hz");
    info_.sample_rate = static_cast<int>(rate);

    const auto channels = static_cast<std::size_t>(info_.channels);
    int container_bits = (bits + 7) / 8 * 8;
    // 24 valid bits may lie left-justified in 32: the frame size knows.
    if (tag == kTagPcm && frame_bytes % channels == 0 && frame_bytes / channels <= 4)
        container_bits = std::max(container_bits, static_cast<int>(frame_bytes / channels) * 8);
    set_format(tag, container_bits);
    info_.codec = codec_name(format_);
    info_.bits_per_sample = bits;
    sample_bytes_ = bytes_per_sample(format_);
    frame_bytes_ = sample_bytes_ * channels;
}

void WavReader::set_format(int tag, int bits) {
    if (tag == kTagPcm && bits == 8) {
        format_ = SampleFormat::kU8;
    } else if (tag == kTagPcm && bits == 16) {
        format_ = SampleFormat::kS16;
    } else if (tag == kTagPcm && bits == 24) {
        format_ = SampleFormat::kS24;
    } else if (tag == kTagPcm && bits == 32) {
        format_ = SampleFormat::kS32;
    } else if (tag == kTagFloat && bits == 32) {
        format_ = SampleFormat::kF32;
    } else if (tag == kTagFloat && bits == 64) {
        format_ = SampleFormat::kF64;
    } else if (tag == kTagALaw) {
        format_ = SampleFormat::kALaw;
    } else if (tag == kTagMuLaw) {
        format_ = SampleFormat::kMuLaw;
    } else {
        refuse("format " + std::to_string(tag) + " with " + std::to_string(bits) + " bits");
    }
}

void WavReader::set_extent(std::uint64_t declared) {
    const std::optional<std::uint64_t> remaining = bytes_->remaining();
    if (!remaining) {
        if (!is_placeholder(declared)) left_ = declared;
        return;
    }
    if (declared == *remaining || (declared < *remaining && ends_at(declared, *remaining))) {
        left_ = declared;
        return;
    }
    if (*remaining == 0) return;
    const std::string sizes = "the header says " + std::to_string(declared) +
                              " bytes of samples, the file holds " + std::to_string(*remaining);
    if (declared > *remaining && !is_placeholder(declared))
        warn("TRUNCATED", sizes);
    else
        warn("HEADER_SIZE_IGNORED", sizes);
}

// Whether the samples really end where the header says so, though the file goes on: then a chunk,
// a tag or a little garbage follows. More samples follow where the size is a placeholder, stale, or
// wrapped at 4 GiB.
bool WavReader::ends_at(std::uint64_t declared, std::uint64_t remaining) {
    for (const std::uint64_t after : {declared + declared % 2, declared}) {
        std::array<std::uint8_t, 8> next{};
        if (bytes_->peek(after, next) < next.size()) continue;
        const std::uint32_t id = u32(next.data());
        if (is_chunk_id(id) && u32(next.data() + 4) <= remaining - after - next.size() + 1)
            return true;
        for (const char* tag : {"LIST", "id3 ", "ID3", "TAG", "APETAGEX", "bext", "JUNK"})
            if (std::memcmp(next.data(), tag, std::strlen(tag)) == 0) return true;
    }
    return declared > 0 && remaining - declared < kMaxTrailingBytes;
}

std::size_t WavReader::read_frames(std::size_t frames, const CancelToken& cancel) {
    std::uint64_t wanted = frames * frame_bytes_;
    if (left_) wanted = std::min(wanted, *left_);
    buffer_.resize(static_cast<std::size_t>(wanted));
    const std::size_t count = bytes_->read(buffer_, cancel);
    if (left_) {
        *left_ -= count;
        if (count < wanted) {
            warn("TRUNCATED",
                 "the input ends " + std::to_string(*left_) + " bytes before the header says so");
            left_ = 0;
        }
    }
    return count / frame_bytes_;
}

std::size_t WavReader::read(std::span<float> interleaved, const CancelToken& cancel) {
    const auto channels = static_cast<std::size_t>(info_.channels);
    if (first_frame_bytes_ > 0 && !interleaved.empty()) {
        convert_samples(format_, std::span(buffer_).first(first_frame_bytes_),
                        interleaved.first(channels));
        first_frame_bytes_ = 0;
        return 1 + read(interleaved.subspan(channels), cancel);
    }
    const std::size_t frames = read_frames(interleaved.size() / channels, cancel);
    convert_samples(format_, std::span(buffer_).first(frames * frame_bytes_),
                    interleaved.first(frames * channels));
    return frames;
}

}  // namespace wavepool::audio
