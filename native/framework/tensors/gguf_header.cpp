#include "framework/tensors/gguf_header.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/error.h"
#include "framework/tensors/header_reader.h"

namespace wavepool {
namespace {

constexpr std::uint32_t kVersion = 3;
constexpr std::uint32_t kDefaultAlignment = 32;
constexpr std::uint32_t kMaxAlignment = 1 << 20;
constexpr std::size_t kMaxKeyBytes = 65535;
constexpr std::size_t kMaxTensorNameBytes = 63;
constexpr std::uint32_t kMaxDimensions = 4;
/// The fewest bytes that an entry of either table can take.
constexpr std::size_t kMinMetadataBytes = 8 + 1 + 4 + 1;
constexpr std::size_t kMinTensorBytes = 8 + 1 + 4 + 4 + 8;

[[noreturn]] void invalid(const std::string& what) {
    throw Error(ErrorCode::kModelFileInvalid, what);
}

class Reader : public HeaderReader {
  public:
    using HeaderReader::HeaderReader;

    std::span<const std::byte> string() { return take(number<std::uint64_t>()); }

    /// A count of entries of at least `entry_bytes` each.
    std::uint64_t count(std::size_t entry_bytes, const char* what) {
        const auto value = number<std::uint64_t>();
        if (value > left() / entry_bytes) {
            invalid(std::string("the file is too short for ") + std::to_string(value) + " " + what);
        }
        return value;
    }
};

std::string text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string name(Reader& reader, std::size_t max_bytes, const char* what) {
    const auto bytes = reader.string();
    const bool printable = std::ranges::all_of(
        bytes, [](std::byte b) { return b > std::byte{0x20} && b < std::byte{0x7f}; });
    if (bytes.empty() || bytes.size() > max_bytes || !printable) {
        invalid(std::string(what) + " before byte " + std::to_string(reader.position()) +
                " is not a name of 1 to " + std::to_string(max_bytes) +
                " printable ASCII characters");
    }
    return text(bytes);
}

/// Bytes of a value of fixed size; 0 for strings, arrays and unknown types.
std::size_t scalar_bytes(GgufType type) {
    switch (type) {
        case GgufType::kUint8:
        case GgufType::kInt8:
        case GgufType::kBool:
            return 1;
        case GgufType::kUint16:
        case GgufType::kInt16:
            return 2;
        case GgufType::kUint32:
        case GgufType::kInt32:
        case GgufType::kFloat32:
            return 4;
        case GgufType::kUint64:
        case GgufType::kInt64:
        case GgufType::kFloat64:
            return 8;
        case GgufType::kString:
        case GgufType::kArray:
            break;
    }
    return 0;
}

GgufType read_type(Reader& reader, const std::string& key) {
    const auto raw = reader.number<std::uint32_t>();
    if (raw > static_cast<std::uint32_t>(GgufType::kFloat64)) {
        invalid(key + " has the unknown type " + std::to_string(raw));
    }
    return static_cast<GgufType>(raw);
}

GgufValue read_array(Reader& reader, const std::string& key) {
    const GgufType element_type = read_type(reader, key);
    if (element_type == GgufType::kArray) invalid(key + " is an array of arrays");
    const std::size_t element_bytes = scalar_bytes(element_type);
    const bool strings = element_type == GgufType::kString;
    const std::uint64_t count =
        reader.count(strings ? sizeof(std::uint64_t) : element_bytes, "array elements");
    const std::size_t start = reader.position();
    if (strings) {
        for (std::uint64_t i = 0; i < count; ++i) reader.string();
    } else {
        reader.take(count * element_bytes);
    }
    return {GgufType::kArray, element_type, count, start, reader.position() - start};
}

GgufValue read_value(Reader& reader, const std::string& key) {
    const GgufType type = read_type(reader, key);
    if (type == GgufType::kArray) return read_array(reader, key);
    const auto bytes =
        type == GgufType::kString ? reader.string() : reader.take(scalar_bytes(type));
    if (type == GgufType::kBool && bytes[0] > std::byte{1}) invalid(key + " is no boolean");
    return {type, type, 1, reader.position() - bytes.size(), bytes.size()};
}

std::size_t read_alignment(const GgufHeader& header, std::span<const std::byte> file) {
    const auto found = header.metadata.find("general.alignment");
    if (found == header.metadata.end()) return kDefaultAlignment;
    if (found->second.type != GgufType::kUint32) invalid("general.alignment is not a uint32");
    const auto alignment =
        Reader(file.subspan(found->second.offset, found->second.bytes)).number<std::uint32_t>();
    if (!std::has_single_bit(alignment) || alignment < 8 || alignment > kMaxAlignment) {
        invalid("general.alignment is " + std::to_string(alignment));
    }
    return alignment;
}

/// The types this project reads, by ggml's numbers.
TensorType tensor_type(std::uint32_t number, const std::string& name) {
    switch (number) {
        case 0:
            return TensorType::kF32;
        case 1:
            return TensorType::kF16;
        case 8:
            return TensorType::kQ8_0;
        case 24:
            return TensorType::kI8;
        case 25:
            return TensorType::kI16;
        case 26:
            return TensorType::kI32;
        case 27:
            return TensorType::kI64;
        case 28:
            return TensorType::kF64;
        case 30:
            return TensorType::kBf16;
        default:
            invalid(name + " has the unsupported tensor type " + std::to_string(number));
    }
}

struct DeclaredTensor {
    std::string name;
    TensorInfo info;
    std::uint64_t offset = 0;
};

DeclaredTensor read_tensor(Reader& reader) {
    DeclaredTensor declared;
    declared.name = name(reader, kMaxTensorNameBytes, "the tensor name");
    const auto dimensions = reader.number<std::uint32_t>();
    if (dimensions > kMaxDimensions) {
        invalid(declared.name + " has " + std::to_string(dimensions) + " dimensions");
    }
    std::uint64_t elements = 1;
    TensorInfo& info = declared.info;
    for (std::uint32_t i = 0; i < dimensions; ++i) {
        const auto extent = reader.number<std::uint64_t>();
        if (extent < 1 || extent > kMaxTensorElements / elements) {
            invalid(declared.name + " has an impossible shape");
        }
        elements *= extent;
        info.shape.push_back(static_cast<std::int64_t>(extent));
    }
    info.elements = elements;
    info.type = tensor_type(reader.number<std::uint32_t>(), declared.name);
    // The file lists the innermost dimension first.
    if (info.type == TensorType::kQ8_0 &&
        (dimensions == 0 || info.shape.front() % kQ8BlockValues != 0)) {
        invalid(declared.name + ": its rows do not fill q8_0 blocks");
    }
    std::ranges::reverse(info.shape);
    info.bytes = tensor_bytes(info.type, elements);
    declared.offset = reader.number<std::uint64_t>();
    return declared;
}

std::size_t padded(std::size_t bytes, std::size_t alignment) {
    return (bytes + alignment - 1) / alignment * alignment;
}

/// Tensors lie one behind the other, each padded: an offset can neither overlap nor point outside.
void place_tensors(GgufHeader& header, std::vector<DeclaredTensor> declared,
                   std::span<const std::byte> file, std::size_t table_end) {
    if (declared.empty()) return;
    const std::size_t alignment = read_alignment(header, file);
    const std::size_t data_start = padded(table_end, alignment);
    if (data_start > file.size()) invalid("the file ends before its tensor data");
    const std::size_t data_bytes = file.size() - data_start;
    std::size_t expected = 0;
    for (DeclaredTensor& entry : declared) {
        if (entry.offset != expected) {
            invalid(entry.name + " is at offset " + std::to_string(entry.offset) + " where " +
                    std::to_string(expected) + " follows from the tensors before it");
        }
        if (expected > data_bytes || entry.info.bytes > data_bytes - expected) {
            invalid(entry.name + " lies beyond the end of the file");
        }
        const std::size_t offset = data_start + expected;
        expected += padded(entry.info.bytes, alignment);
        if (!header.tensors.emplace(entry.name, PlacedTensor{std::move(entry.info), offset})
                 .second) {
            invalid(entry.name + " is in the file twice");
        }
    }
}

std::vector<std::string> decode_strings(Reader reader, std::uint64_t count) {
    std::vector<std::string> strings;
    strings.reserve(static_cast<std::size_t>(count));
    for (std::uint64_t i = 0; i < count; ++i) strings.push_back(text(reader.string()));
    return strings;
}

}  // namespace

GgufHeader parse_gguf(std::span<const std::byte> file) {
    Reader reader(file);
    if (text(reader.take(4)) != "GGUF") invalid("the file does not start with \"GGUF\"");
    if (const auto version = reader.number<std::uint32_t>(); version != kVersion) {
        invalid("GGUF version " + std::to_string(version) + "; only version 3 is read");
    }
    const auto tensor_count = reader.count(kMinTensorBytes, "tensors");
    const auto metadata_count = reader.count(kMinMetadataBytes, "metadata values");

    GgufHeader header;
    for (std::uint64_t i = 0; i < metadata_count; ++i) {
        const std::string key = name(reader, kMaxKeyBytes, "the metadata key");
        const GgufValue value = read_value(reader, key);
        if (!header.metadata.emplace(key, value).second) invalid(key + " is in the file twice");
    }
    std::vector<DeclaredTensor> declared;
    for (std::uint64_t i = 0; i < tensor_count; ++i) declared.push_back(read_tensor(reader));
    place_tensors(header, std::move(declared), file, reader.position());
    return header;
}

MetadataValue decode_value(std::span<const std::byte> file, const GgufValue& value) {
    const auto bytes = file.subspan(value.offset, value.bytes);
    Reader reader(bytes);
    switch (value.type) {
        case GgufType::kUint8:
            return std::int64_t{reader.number<std::uint8_t>()};
        case GgufType::kInt8:
            return std::int64_t{reader.number<std::int8_t>()};
        case GgufType::kUint16:
            return std::int64_t{reader.number<std::uint16_t>()};
        case GgufType::kInt16:
            return std::int64_t{reader.number<std::int16_t>()};
        case GgufType::kUint32:
            return std::int64_t{reader.number<std::uint32_t>()};
        case GgufType::kInt32:
            return std::int64_t{reader.number<std::int32_t>()};
        case GgufType::kInt64:
            return reader.number<std::int64_t>();
        case GgufType::kUint64: {
            const auto number = reader.number<std::uint64_t>();
            if (std::in_range<std::int64_t>(number)) return static_cast<std::int64_t>(number);
            return {};
        }
        case GgufType::kFloat32:
            return double{reader.number<float>()};
        case GgufType::kFloat64:
            return reader.number<double>();
        case GgufType::kBool:
            return bytes[0] != std::byte{0};
        case GgufType::kString:
            return text(bytes);
        case GgufType::kArray:
            if (value.element_type == GgufType::kString) return decode_strings(reader, value.count);
            break;
    }
    return {};
}

}  // namespace wavepool
