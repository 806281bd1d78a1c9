#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace wavepool::audio {

/// The four bytes before every MPEG audio frame, layers II and III.
struct Mp3Header {
    int version = 0;  ///< 1, 2, or 25 for "2.5"
    int layer = 0;
    int sample_rate = 0;
    int channels = 0;
    bool has_checksum = false;
    std::size_t frame_bytes = 0;  ///< including the header
    std::size_t frame_samples = 0;

    static constexpr std::size_t kBytes = 4;

    /// The header at the start of `bytes`, or nothing where no frame starts. Free-format frames, of
    /// unknown length, count as none.
    [[nodiscard]] static std::optional<Mp3Header> parse(
        std::span<const std::uint8_t> bytes) noexcept;

    /// Whether both headers can belong to one stream.
    [[nodiscard]] bool matches(const Mp3Header& other) const noexcept {
        return version == other.version && layer == other.layer && sample_rate == other.sample_rate;
    }
};

/// The note ("Xing", "Info") that an encoder writes into a first frame without sound.
struct Mp3EncoderNote {
    std::uint64_t frames = 0;         ///< 0: not noted
    std::size_t delay_samples = 0;    ///< to drop from the start, the decoder's own included
    std::size_t padding_samples = 0;  ///< to drop from the end

    [[nodiscard]] static std::optional<Mp3EncoderNote> parse(
        const Mp3Header& header, std::span<const std::uint8_t> frame) noexcept;
};

}  // namespace wavepool::audio
