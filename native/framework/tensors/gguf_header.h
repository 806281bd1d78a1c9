#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "framework/tensors/tensor_file.h"

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

/// One metadata value and where its encoding is: for an array its elements, without the element
/// type and count; for a string its characters.
struct GgufValue {
    GgufType type;
    GgufType element_type;  ///< equals `type` unless that is kArray
    std::uint64_t count;    ///< elements of an array, else 1
    std::size_t offset;     ///< in the file
    std::size_t bytes;
};

/// What a GGUF v3 file declares, with every size, offset and string checked against the bytes that
/// are there.
struct GgufHeader {
    std::map<std::string, GgufValue, std::less<>> metadata;
    PlacedTensors tensors;
};

/// Memory stays proportional to the file whatever its fields claim. Throws
/// Error{kModelFileInvalid} saying what is wrong.
[[nodiscard]] GgufHeader parse_gguf(std::span<const std::byte> file);

/// The value of a key of a file that parse_gguf has checked.
[[nodiscard]] MetadataValue decode_value(std::span<const std::byte> file, const GgufValue& value);

}  // namespace wavepool
