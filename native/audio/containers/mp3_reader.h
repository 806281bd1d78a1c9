#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "audio/bytes/byte_reader.h"
#include "audio/containers/frame_reader.h"
#include "audio/containers/miniaudio_decoders.h"
#include "audio/containers/mp3_header.h"

namespace wavepool::audio {

/// MPEG audio, layers II and III, without a container. Tags and junk around and between the frames
/// are passed over; only frames that fit the first ones count, so that other bytes are never played
/// as sound. A frame that cannot be decoded becomes silence of its length.
class Mp3Reader final : public FrameReader {
  public:
    /// `bytes` stands after any ID3v2 tag. At most `search_bytes` are passed over to find the first
    /// of several consecutive frames. Throws Error{kInputUndecodable | kCancelled}.
    Mp3Reader(std::unique_ptr<ByteReader> bytes, std::size_t search_bytes,
              const CancelToken& cancel);

    std::size_t read(std::span<float> interleaved, const CancelToken& cancel) override;

  private:
    bool fill(std::size_t bytes, const CancelToken& cancel);
    [[nodiscard]] std::span<const std::uint8_t> ahead(std::size_t offset) const;
    [[nodiscard]] bool frames_follow(std::size_t frames, const CancelToken& cancel);
    void find_first_frame(std::size_t search_bytes, const CancelToken& cancel);
    void read_encoder_note(const CancelToken& cancel);
    std::optional<Mp3Header> next_frame(const CancelToken& cancel);
    bool decode_frame(const CancelToken& cancel);
    void match_channels(std::size_t samples, int channels);
    void end_of_stream(std::size_t partial_bytes);

    std::unique_ptr<ByteReader> bytes_;
    Mp3FrameDecoder decoder_;
    Mp3Header first_;
    std::vector<std::uint8_t> buffer_;
    std::size_t begin_ = 0;  ///< where the unread part of buffer_ begins
    std::size_t end_ = 0;
    bool bytes_ended_ = false;
    bool ended_ = false;
    std::uint64_t noted_frames_ = 0;
    std::uint64_t decoded_frames_ = 0;
    std::size_t drop_samples_ = 0;     ///< per channel, still to drop from the start
    std::size_t padding_samples_ = 0;  ///< per channel, to drop from the last noted frame
    std::vector<float> pcm_;           ///< the samples of the last frame, interleaved
    std::size_t pcm_read_ = 0;
};

}  // namespace wavepool::audio
