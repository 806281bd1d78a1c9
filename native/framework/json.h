#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "framework/error.h"

namespace wavepool {

/// An error in a JSON text. It tells what is wrong and at which byte, counted from 1. JSON comes
/// with model files, so its code is kModelFileInvalid.
class JsonError : public Error {
  public:
    JsonError(std::size_t byte, const std::string& reason)
        : Error(ErrorCode::kModelFileInvalid,
                "bad JSON at byte " + std::to_string(byte) + ": " + reason),
          byte_(byte) {}

    [[nodiscard]] std::size_t byte() const noexcept { return byte_; }

  private:
    std::size_t byte_;
};

/// Arrays and objects inside each other that a text may have.
inline constexpr int kMaxJsonDepth = 64;

/// Strict RFC 8259: one value and nothing behind it, valid UTF-8, no key twice in an object, no
/// number beyond a double. Keeps no state between calls, so any threads may parse at once. Throws
/// JsonError.
[[nodiscard]] nlohmann::json parse_json(std::string_view text);

}  // namespace wavepool
