#include "framework/error.h"

#include <new>

namespace wavepool {

std::string_view error_code_name(ErrorCode code) noexcept {
    switch (code) {
        case ErrorCode::kInvalidRequest:
            return "INVALID_REQUEST";
        case ErrorCode::kInputNotFound:
            return "INPUT_NOT_FOUND";
        case ErrorCode::kInputEmpty:
            return "INPUT_EMPTY";
        case ErrorCode::kInputUndecodable:
            return "INPUT_UNDECODABLE";
        case ErrorCode::kInputTooLarge:
            return "INPUT_TOO_LARGE";
        case ErrorCode::kModelFileInvalid:
            return "MODEL_FILE_INVALID";
        case ErrorCode::kModelLoadFailed:
            return "MODEL_LOAD_FAILED";
        case ErrorCode::kSlotsUnsupported:
            return "SLOTS_UNSUPPORTED";
        case ErrorCode::kSlotBusy:
            return "SLOT_BUSY";
        case ErrorCode::kInsufficientMemory:
            return "INSUFFICIENT_MEMORY";
        case ErrorCode::kCancelled:
            return "CANCELLED";
        case ErrorCode::kInternal:
            return "INTERNAL";
    }
    return "INTERNAL";
}

Error error_from_current_exception() {
    try {
        throw;
    } catch (const Error& error) {
        return error;
    } catch (const std::bad_alloc&) {
        return {ErrorCode::kInsufficientMemory, "an allocation failed"};
    } catch (const std::exception& error) {
        return {ErrorCode::kInternal, error.what()};
    } catch (...) {
        return {ErrorCode::kInternal, "an exception of unknown type"};
    }
}

}  // namespace wavepool
