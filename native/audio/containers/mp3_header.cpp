#include "audio/containers/mp3_header.h"

#include <array>
#include <cstring>

namespace wavepool::audio {
namespace {

using Bitrates = std::array<int, 16>;

// kbit/s by index; 0: free format or forbidden.
constexpr Bitrates kVersion1Layer2{0,   32,  48,  56,  64,  80,  96,  112,
                                   128, 160, 192, 224, 256, 320, 384, 0};
constexpr Bitrates kVersion1Layer3{0,   32,  40,  48,  56,  64,  80,  96,
                                   112, 128, 160, 192, 224, 256, 320, 0};
constexpr Bitrates kVersion2{0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0};
constexpr std::array<int, 4> kVersion1Rates{44100, 48000, 32000, 0};

// Samples that every decoder delays layer III by.
constexpr std::size_t kDecoderDelay = 529;

std::uint32_t u32(const std::uint8_t* at) {
    return std::uint32_t{at[0]} << 24 | std::uint32_t{at[1]} << 16 | std::uint32_t{at[2]} << 8 |
           std::uint32_t{at[3]};
}

}  // namespace

std::optional<Mp3Header> Mp3Header::parse(std::span<const std::uint8_t> bytes) noexcept {
    if (bytes.size() < kBytes || bytes[0] != 0xFF || (bytes[1] & 0xE0) != 0xE0) return std::nullopt;
    const int version_bits = bytes[1] >> 3 & 3;
    const int layer = 4 - (bytes[1] >> 1 & 3);
    if (version_bits == 1 || layer < 2 || layer > 3) return std::nullopt;

    Mp3Header header;
    header.version = version_bits == 3 ? 1 : version_bits == 2 ? 2 : 25;
    header.layer = layer;
    const std::size_t rate_index = bytes[2] >> 2 & 3;
    const int rate_shift = header.version == 1 ? 0 : header.version == 2 ? 1 : 2;
    header.sample_rate = kVersion1Rates[rate_index] >> rate_shift;
    const Bitrates& bitrates = header.version != 1 ? kVersion2
                               : layer == 2        ? kVersion1Layer2
                                                   : kVersion1Layer3;
    const int bitrate = bitrates[bytes[2] >> 4];
    const bool emphasis_reserved = (bytes[3] & 3) == 2;
    if (header.sample_rate == 0 || bitrate == 0 || emphasis_reserved) return std::nullopt;

    header.channels = (bytes[3] >> 6) == 3 ? 1 : 2;
    header.has_checksum = (bytes[1] & 1) == 0;
    header.frame_samples = layer == 3 && header.version != 1 ? 576 : 1152;
    const std::size_t padding = bytes[2] >> 1 & 1;
    header.frame_bytes = header.frame_samples / 8 * static_cast<std::size_t>(bitrate) * 1000 /
                             static_cast<std::size_t>(header.sample_rate) +
                         padding;
    return header;
}

std::optional<Mp3EncoderNote> Mp3EncoderNote::parse(const Mp3Header& header,
                                                    std::span<const std::uint8_t> frame) noexcept {
    if (header.layer != 3) return std::nullopt;
    const std::size_t side_info =
        header.version == 1 ? (header.channels == 1 ? 17 : 32) : (header.channels == 1 ? 9 : 17);
    std::size_t at = Mp3Header::kBytes + (header.has_checksum ? 2 : 0) + side_info;
    if (frame.size() < at + 8) return std::nullopt;
    const std::uint8_t* note = frame.data() + at;
    if (std::memcmp(note, "Xing", 4) != 0 && std::memcmp(note, "Info", 4) != 0) return std::nullopt;

    Mp3EncoderNote result;
    const std::uint32_t flags = u32(note + 4);
    at += 8;
    if ((flags & 1) != 0 && frame.size() >= at + 4) result.frames = u32(frame.data() + at);
    at += ((flags & 1) != 0 ? 4 : 0) + ((flags & 2) != 0 ? 4 : 0) + ((flags & 4) != 0 ? 100 : 0) +
          ((flags & 8) != 0 ? 4 : 0);
    const bool gapless =
        frame.size() >= at + 24 && (std::memcmp(frame.data() + at, "LAME", 4) == 0 ||
                                    std::memcmp(frame.data() + at, "Lav", 3) == 0);
    if (gapless) {
        const std::uint8_t* delays = frame.data() + at + 21;
        result.delay_samples =
            (std::size_t{delays[0]} << 4 | std::size_t{delays[1]} >> 4) + kDecoderDelay;
        const std::size_t padding = std::size_t{delays[1] & 0x0FU} << 8 | delays[2];
        result.padding_samples = padding > kDecoderDelay ? padding - kDecoderDelay : 0;
    }
    return result;
}

}  // namespace wavepool::audio
