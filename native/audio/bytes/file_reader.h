#pragma once

#include <filesystem>

#include "audio/bytes/byte_reader.h"
#include "audio/bytes/file_descriptor.h"

namespace wavepool::audio {

/// A regular file, read by position.
class FileReader final : public ByteReader {
  public:
    /// Never blocks. Throws Error{kInputNotFound} when the file is missing or may not be read,
    /// Error{kInvalidRequest} when it is a directory, device, socket or FIFO.
    explicit FileReader(const std::filesystem::path& file);

    std::size_t read(std::span<std::uint8_t> out, const CancelToken& cancel) override;
    bool skip(std::uint64_t bytes, const CancelToken& cancel) override;
    [[nodiscard]] std::size_t peek(std::uint64_t ahead, std::span<std::uint8_t> out) override;
    [[nodiscard]] std::optional<std::uint64_t> remaining() const override;

  private:
    std::size_t read_at(std::uint64_t position, std::span<std::uint8_t> out) const;

    FileDescriptor descriptor_;
    std::uint64_t size_ = 0;
    std::uint64_t position_ = 0;
};

}  // namespace wavepool::audio
