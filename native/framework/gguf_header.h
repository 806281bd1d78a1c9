#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace wavepool {

/// The value types of GGUF metadata, as the format numbers them.
enum class GgufType : std::uint32_t {
    kUint8 = 0,
    kInt8 = 1,
    kUint16 = 2,
    kInt16 = 3,
    kUint32 = 4,
    kInt32 = 5,
    kFloat32 = 6,
    kBool = 7,
    kString = 8,
    kArray = 9,
    kUint64 = 10,
    kInt64 = 11,
    kFloat64 = 12,
};

/// The tensor types this project reads, as ggml numbers them.
enum class TensorType : std::uint32_t { kF32 = 0, kF16 = 1, kQ8_0 = 8, kI8 = 24 };

/// One metadata value. `bytes` borrows the encoded value: for an array its elements, without the
/// element type and count; for a string its characters.
struct GgufValue {
    GgufType type;
    GgufType element_type;  ///< equals `type` unless that is kArray
    std::uint64_t count;    ///< elements of an array, else 1
    std::span<const std::byte> bytes;
};

struct GgufTensor {
    TensorType type;
    std::vector<std::int64_t> shape;  ///< outermost first
    std::size_t elements;
    std::span<const std::byte> data;
};

/// What a GGUF v3 file declares, with every size, offset and string checked against the bytes that
/// are there. Borrows `file`.
struct GgufHeader {
    std::map<std::string, GgufValue, std::less<>> metadata;
    std::map<std::string, GgufTensor, std::less<>> tensors;
};

/// Memory stays proportional to the file whatever its fields claim. Throws
/// Error{kModelFileInvalid} saying what is wrong.
[[nodiscard]] GgufHeader parse_gguf(std::span<const std::byte> file);

/// The strings of an array value that parse_gguf has checked.
[[nodiscard]] std::vector<std::string> decode_strings(const GgufValue& array);

}  // namespace wavepool
