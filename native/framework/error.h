#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace wavepool {

/// The reasons native code gives. Each has the same name as its row in src/core/errors.ts, which
/// owns the table.
enum class ErrorCode {
    kInvalidRequest,
    kInputNotFound,
    kInputEmpty,
    kInputUndecodable,
    kInputTooLarge,
    kModelFileInvalid,
    kModelLoadFailed,
    kSlotsUnsupported,
    kSlotBusy,
    kInsufficientMemory,
    kCancelled,
    kInternal,
};

/// The code as users see it, e.g. "INPUT_UNDECODABLE".
[[nodiscard]] std::string_view error_code_name(ErrorCode code) noexcept;

/// Travels inside framework, audio and models; never across N-API, a thread's entry function or a C
/// callback.
class Error : public std::runtime_error {
  public:
    Error(ErrorCode code, const std::string& detail) : std::runtime_error(detail), code_(code) {}

    [[nodiscard]] ErrorCode code() const noexcept { return code_; }

  private:
    ErrorCode code_;
};

/// The exception that is being handled, as an Error; to be called inside a catch block. Allocation
/// failures become kInsufficientMemory, everything unknown kInternal.
[[nodiscard]] Error error_from_current_exception();

}  // namespace wavepool
