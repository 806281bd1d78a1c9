#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "framework/cancellation.h"

namespace wavepool::audio {

/// The limits that every reader enforces. What exceeds them is damage or an attack, not sound.
inline constexpr int kMinSampleRate = 1000;
inline constexpr int kMaxSampleRate = 384000;
inline constexpr int kMaxChannels = 64;

/// The format of an input: what its container says or, where that is wrong, what was found.
struct SourceInfo {
    std::string container;  ///< "wav", "mp3", "flac"
    std::string codec;      ///< "pcm_s24le", "pcm_mulaw", "mp3", …
    int sample_rate = 0;    ///< Hz, before resampling
    int channels = 0;
    int bits_per_sample = 0;  ///< 0 where the codec has none
};

/// Facts a user should know though the input was decoded. Codes are stable: "HEADER_SIZE_IGNORED",
/// "TRUNCATED", "DECODE_ERRORS_SKIPPED", "ONE_CHANNEL_SILENT", "ANTI_PHASE".
struct Warning {
    std::string code;
    std::string message;
};

/// Decoded frames (one sample of every channel) at the input's own rate. A constructed reader has
/// found at least one frame. Used by one thread at a time.
class FrameReader {
  public:
    virtual ~FrameReader() = default;

    [[nodiscard]] const SourceInfo& info() const noexcept { return info_; }
    [[nodiscard]] const std::vector<Warning>& warnings() const noexcept { return warnings_; }

    /// Fills `interleaved`, a whole number of frames; fewer mean the end of the input. Returns the
    /// number of frames. Throws Error{kCancelled | kInputUndecodable}.
    virtual std::size_t read(std::span<float> interleaved, const CancelToken& cancel) = 0;

  protected:
    /// The first warning of each code counts.
    void warn(std::string code, std::string message) {
        const bool known = std::any_of(warnings_.begin(), warnings_.end(),
                                       [&](const Warning& one) { return one.code == code; });
        if (!known) warnings_.push_back({std::move(code), std::move(message)});
    }

    SourceInfo info_;

  private:
    std::vector<Warning> warnings_;
};

}  // namespace wavepool::audio
