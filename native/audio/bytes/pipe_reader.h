#pragma once

#include "audio/bytes/byte_reader.h"
#include "audio/bytes/file_descriptor.h"

namespace wavepool::audio {

/// The read end of a pipe. Waits for bytes, at most until the token is raised (noticed within
/// 50 ms) or nothing has come for `stall_timeout_ms`.
class PipeReader final : public ByteReader {
  public:
    /// Owns the descriptor from here on, also when it throws Error{kInvalidRequest}.
    PipeReader(int descriptor, int stall_timeout_ms);

    /// Throws as ByteReader::read() does, and Error{kInputUndecodable} when the writer stalls.
    std::size_t read(std::span<std::uint8_t> out, const CancelToken& cancel) override;
    bool skip(std::uint64_t bytes, const CancelToken& cancel) override;
    [[nodiscard]] std::size_t peek(std::uint64_t ahead, std::span<std::uint8_t> out) override;
    [[nodiscard]] std::optional<std::uint64_t> remaining() const override;

  private:
    void wait_readable(const CancelToken& cancel) const;

    FileDescriptor descriptor_;
    int stall_timeout_ms_;
};

}  // namespace wavepool::audio
