#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace wavepool::audio {

/// The largest frame of any MPEG layer, both channels together.
inline constexpr std::size_t kMaxMp3FrameSamples = 2304;

/// Decodes one MPEG audio stream frame by frame. The caller finds where the frames are.
class Mp3FrameDecoder {
  public:
    Mp3FrameDecoder();
    ~Mp3FrameDecoder();
    Mp3FrameDecoder(const Mp3FrameDecoder&) = delete;
    Mp3FrameDecoder& operator=(const Mp3FrameDecoder&) = delete;

    /// Decodes exactly one frame, header included, to interleaved f32. Returns the samples per
    /// channel, 0 when the frame is damaged or lacks the frames before it.
    std::size_t decode(std::span<const std::uint8_t> frame,
                       std::span<float, kMaxMp3FrameSamples> interleaved) noexcept;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

/// One native FLAC stream, pulled through a callback.
class FlacStreamDecoder {
  public:
    /// Fills the span, fewer bytes mean the end. Must not throw.
    using Feed = std::function<std::size_t(std::span<std::uint8_t>)>;

    explicit FlacStreamDecoder(Feed feed);
    ~FlacStreamDecoder();
    FlacStreamDecoder(const FlacStreamDecoder&) = delete;
    FlacStreamDecoder& operator=(const FlacStreamDecoder&) = delete;

    /// False when the stream information is missing or damaged: then nothing else may be called.
    [[nodiscard]] bool valid() const noexcept { return decoder_ != nullptr; }
    [[nodiscard]] int sample_rate() const noexcept;
    [[nodiscard]] int channels() const noexcept;
    [[nodiscard]] int bits_per_sample() const noexcept;

    /// Fills `interleaved` with whole frames and returns their number. Fewer than fit mean damage
    /// or the end: called again, it goes on at the next intact block.
    std::size_t read(std::span<float> interleaved) noexcept;

    /// Where the last decoded block ends in the stream, by its own header.
    [[nodiscard]] std::uint64_t block_end() const noexcept;

  private:
    struct Native;
    Feed feed_;
    std::unique_ptr<Native> decoder_;
};

}  // namespace wavepool::audio
