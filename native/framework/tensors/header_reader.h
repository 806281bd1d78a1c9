#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "framework/error.h"

namespace wavepool {

/// Reads forward through bytes that nobody has vouched for. Throws Error{kModelFileInvalid} where
/// they end too early.
class HeaderReader {
  public:
    explicit HeaderReader(std::span<const std::byte> bytes) : rest_(bytes), size_(bytes.size()) {}

    std::span<const std::byte> take(std::uint64_t count) {
        if (count > rest_.size()) {
            throw Error(ErrorCode::kModelFileInvalid,
                        "the file ends at byte " + std::to_string(size_) + " inside a field of " +
                            std::to_string(count) + " bytes");
        }
        const auto taken = rest_.first(static_cast<std::size_t>(count));
        rest_ = rest_.subspan(taken.size());
        return taken;
    }

    template <typename T>
    T number() {
        T value;
        std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
        return value;
    }

    [[nodiscard]] std::size_t position() const { return size_ - rest_.size(); }
    [[nodiscard]] std::size_t left() const { return rest_.size(); }

  private:
    std::span<const std::byte> rest_;
    std::size_t size_;
};

}  // namespace wavepool
