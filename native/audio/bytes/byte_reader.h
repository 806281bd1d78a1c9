#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "framework/cancellation.h"

namespace wavepool::audio {

/// Encoded bytes in order, from a regular file or a pipe. Used by one thread at a time.
class ByteReader {
  public:
    virtual ~ByteReader() = default;

    /// Fills `out`; fewer bytes mean the end. Throws Error{kCancelled} once `cancel` is raised,
    /// Error{kInputUndecodable} when reading fails.
    virtual std::size_t read(std::span<std::uint8_t> out, const CancelToken& cancel) = 0;

    /// Moves forward. False when the input ends before.
    virtual bool skip(std::uint64_t bytes, const CancelToken& cancel) = 0;

    /// Reads `ahead` bytes after the position without moving. Nothing where that is impossible.
    [[nodiscard]] virtual std::size_t peek(std::uint64_t ahead, std::span<std::uint8_t> out) = 0;

    /// The number of bytes from here to the end, where it is known without reading them.
    [[nodiscard]] virtual std::optional<std::uint64_t> remaining() const = 0;
};

}  // namespace wavepool::audio
