#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "audio/containers/frame_reader.h"
#include "framework/cancellation.h"
#include "framework/sample_store.h"

namespace wavepool::audio {

/// An input that is decoded in steps to 16 kHz mono f32 in its SampleStore. Nothing in it grows
/// with the length of the input but what has been decoded and not yet released. Used by one thread
/// at a time; `store()` by any.
class AudioInput {
  public:
    virtual ~AudioInput() = default;

    [[nodiscard]] virtual const SourceInfo& info() const noexcept = 0;
    [[nodiscard]] virtual const std::shared_ptr<SampleStore>& store() const noexcept = 0;

    /// Decodes until the store ends at or after `sample`, or the input has ended. Returns true at
    /// the end of the input. Throws Error{kInputUndecodable | kCancelled}; what was decoded before
    /// stays readable.
    virtual bool decode_until(std::int64_t sample, const CancelToken& cancel) = 0;

    [[nodiscard]] virtual std::vector<Warning> warnings() const = 0;
};

/// Recognizes WAV, MP3 and FLAC by content, never by name or by what a header claims about sizes.
/// Throws Error{kInputNotFound | kInputEmpty | kInputUndecodable}; kInputUndecodable is also the
/// answer for formats that ffmpeg might know: the caller then tries open_pipe(). With `channel`,
/// counted from 0, the store holds that channel and no mix; kInvalidRequest when it is not there.
[[nodiscard]] std::unique_ptr<AudioInput> open_file(const std::filesystem::path& file,
                                                    std::optional<int> channel = std::nullopt);

/// A WAV stream (sizes unknown) read from a pipe, as an ffmpeg child writes it. Takes ownership of
/// the descriptor. Reading waits for data at most until `cancel` is raised or `stall_timeout_ms`
/// pass without a byte (kInputUndecodable). `channel` as for open_file().
[[nodiscard]] std::unique_ptr<AudioInput> open_pipe(int read_descriptor, int stall_timeout_ms,
                                                    const CancelToken& cancel,
                                                    std::optional<int> channel = std::nullopt);

}  // namespace wavepool::audio
