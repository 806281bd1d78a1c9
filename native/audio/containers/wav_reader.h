#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "audio/bytes/byte_reader.h"
#include "audio/containers/frame_reader.h"
#include "audio/containers/sample_format.h"

namespace wavepool::audio {

/// RIFF, RF64 and BW64 WAVE: PCM, float, A-law, µ-law, plain or WAVE_FORMAT_EXTENSIBLE. Sizes in
/// the headers are hints: nothing is allocated by them, and where they contradict a regular file,
/// what the file really holds is read. In a pipe, a size that is a placeholder means "to the end".
class WavReader final : public FrameReader {
  public:
    /// `bytes` stands at the RIFF header. Throws Error{kInputEmpty} for a header without samples,
    /// Error{kInputUndecodable | kCancelled}.
    WavReader(std::unique_ptr<ByteReader> bytes, const CancelToken& cancel);

    std::size_t read(std::span<float> interleaved, const CancelToken& cancel) override;

  private:
    struct ChunkHeader {
        std::uint32_t id = 0;
        std::uint32_t size = 0;
    };

    void read_headers(const CancelToken& cancel);
    bool next_chunk(ChunkHeader& chunk, const CancelToken& cancel);
    bool find_known_chunk(ChunkHeader& chunk, const CancelToken& cancel);
    void skip_chunk(const ChunkHeader& chunk, std::uint64_t already_read,
                    const CancelToken& cancel);
    void read_format(const ChunkHeader& chunk, const CancelToken& cancel);
    void set_format(int tag, int bits);
    void set_extent(std::uint64_t declared);
    [[nodiscard]] bool ends_at(std::uint64_t declared, std::uint64_t remaining);
    std::size_t read_frames(std::size_t frames, const CancelToken& cancel);

    std::unique_ptr<ByteReader> bytes_;
    SampleFormat format_ = SampleFormat::kS16;
    std::size_t frame_bytes_ = 0;
    std::size_t sample_bytes_ = 0;
    std::optional<std::uint64_t> large_data_size_;  ///< from RF64's ds64 chunk
    std::optional<std::uint64_t> left_;             ///< data bytes to read; nothing: to the end
    std::optional<std::uint8_t> unread_;            ///< looked like padding, was not
    std::vector<std::uint8_t> buffer_;
    std::size_t first_frame_bytes_ = 0;  ///< in buffer_, read by the constructor
};

}  // namespace wavepool::audio
