#include "framework/tensors/ggml_bin_header.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "framework/error.h"
#include "framework/tensors/header_reader.h"

namespace wavepool {
namespace {

constexpr std::int32_t kMaxDimensions = 4;
constexpr std::int32_t kMaxNameBytes = 127;

[[noreturn]] void invalid(const std::string& what) {
    throw Error(ErrorCode::kModelFileInvalid, what);
}

class Reader : public HeaderReader {
  public:
    using HeaderReader::HeaderReader;

    std::int32_t integer() { return number<std::int32_t>(); }

    /// A count or length. The format writes them as signed numbers.
    std::size_t size(const char* what) {
        const std::int32_t value = integer();
        if (value < 0) {
            invalid(std::string(what) + " before byte " + std::to_string(position()) + " is " +
                    std::to_string(value));
        }
        return static_cast<std::size_t>(value);
    }

    std::string text(std::size_t length) {
        const auto bytes = take(length);
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }
};

/// `shape` is innermost first, as the file has it. Skips the numbers.
PlacedTensor place(Reader& reader, const std::string& name, TensorType type,
                   std::vector<std::int64_t> shape) {
    std::uint64_t elements = 1;
    for (const std::int64_t extent : shape) {
        if (extent < 1 || static_cast<std::uint64_t>(extent) > kMaxTensorElements / elements) {
            invalid(name + " has an impossible shape");
        }
        elements *= static_cast<std::uint64_t>(extent);
    }
    if (static_cast<std::uint64_t>(shape.front()) % block_values(type) != 0) {
        invalid(name + ": a row of " + std::to_string(shape.front()) + " numbers is not whole " +
                std::string(tensor_type_name(type)) + " blocks");
    }
    PlacedTensor tensor;
    tensor.info.type = type;
    tensor.info.elements = static_cast<std::size_t>(elements);
    tensor.offset = reader.position();
    tensor.info.bytes = reader.take(tensor_bytes(type, elements)).size();
    std::ranges::reverse(shape);
    tensor.info.shape = std::move(shape);
    return tensor;
}

void add(PlacedTensors& tensors, std::string name, PlacedTensor tensor) {
    if (!tensors.emplace(name, std::move(tensor)).second) invalid(name + " is there twice");
}

PlacedTensor read_mel_filters(Reader& reader) {
    const std::int64_t bins = reader.integer();
    const std::int64_t frequencies = reader.integer();
    return place(reader, std::string(kGgmlBinMelFilters), TensorType::kF32, {frequencies, bins});
}

std::vector<std::string> read_tokens(Reader& reader) {
    const std::size_t count = reader.size("the number of tokens");
    if (count > reader.left() / sizeof(std::int32_t)) {
        invalid("the file is too short for " + std::to_string(count) + " tokens");
    }
    std::vector<std::string> tokens;
    tokens.reserve(count);
    while (tokens.size() < count) {
        tokens.push_back(reader.text(reader.size("the length of a token")));
    }
    return tokens;
}

void read_tensor(Reader& reader, PlacedTensors& tensors) {
    const std::int32_t dimensions = reader.integer();
    const std::int32_t name_bytes = reader.integer();
    const std::int32_t number = reader.integer();
    if (dimensions < 1 || dimensions > kMaxDimensions) {
        invalid("a tensor before byte " + std::to_string(reader.position()) + " has " +
                std::to_string(dimensions) + " dimensions");
    }
    if (name_bytes < 1 || name_bytes > kMaxNameBytes) {
        invalid("a tensor before byte " + std::to_string(reader.position()) + " has a name of " +
                std::to_string(name_bytes) + " bytes");
    }
    std::vector<std::int64_t> shape;
    for (std::int32_t i = 0; i < dimensions; ++i) shape.push_back(reader.integer());
    std::string name = reader.text(static_cast<std::size_t>(name_bytes));
    const bool printable = std::ranges::all_of(name, [](char c) { return c > 0x20 && c < 0x7f; });
    if (!printable) {
        invalid("the name before byte " + std::to_string(reader.position()) +
                " is not printable ASCII");
    }
    const auto type = tensor_type_of_ggml(static_cast<std::uint32_t>(number));
    if (!type) invalid(name + " has the unknown type " + std::to_string(number));
    PlacedTensor tensor = place(reader, name, *type, std::move(shape));
    add(tensors, std::move(name), std::move(tensor));
}

}  // namespace

GgmlBinHeader parse_ggml_bin(std::span<const std::byte> file) {
    Reader reader(file);
    if (static_cast<std::uint32_t>(reader.integer()) != kGgmlBinMagic) {
        invalid("not a ggml file");
    }
    GgmlBinHeader header;
    for (std::int32_t& parameter : header.parameters) parameter = reader.integer();
    add(header.tensors, std::string(kGgmlBinMelFilters), read_mel_filters(reader));
    header.tokens = read_tokens(reader);
    while (reader.left() > 0) read_tensor(reader, header.tensors);
    return header;
}

}  // namespace wavepool
