#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>

#include "audio/bytes/byte_reader.h"
#include "audio/containers/frame_reader.h"
#include "audio/containers/miniaudio_decoders.h"

namespace wavepool::audio {

/// Native FLAC. Of the metadata only STREAMINFO reaches the decoder: pictures, seek tables and tags
/// are passed over whatever they hold. Damaged frames are left out.
class FlacReader final : public FrameReader {
  public:
    /// `bytes` stands at "fLaC". Throws Error{kInputEmpty} when the stream holds no frames,
    /// Error{kInputUndecodable | kCancelled}.
    FlacReader(std::unique_ptr<ByteReader> bytes, const CancelToken& cancel);

    std::size_t read(std::span<float> interleaved, const CancelToken& cancel) override;

  private:
    void read_metadata(const CancelToken& cancel);
    std::size_t feed(std::span<std::uint8_t> out) noexcept;
    std::size_t decode(std::span<float> interleaved, const CancelToken& cancel);
    void end_of_stream();

    std::unique_ptr<ByteReader> bytes_;
    std::array<std::uint8_t, 42> head_{};  ///< "fLaC" and STREAMINFO as the last metadata block
    std::size_t head_read_ = 0;
    std::uint64_t declared_frames_ = 0;  ///< 0: unknown
    std::uint64_t decoded_frames_ = 0;
    std::array<float, 8> first_frame_{};
    bool first_frame_pending_ = false;
    bool bytes_ended_ = false;
    bool ended_ = false;
    CancelToken cancel_;          ///< the token of the running call
    std::exception_ptr failure_;  ///< must not pass through the decoder
    // Last: it pulls from the members above.
    std::optional<FlacStreamDecoder> decoder_;
};

}  // namespace wavepool::audio
