#include "framework/tensors/safetensors_header.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "framework/error.h"
#include "framework/json.h"

namespace wavepool {
namespace {

constexpr std::size_t kMaxDimensions = 8;
constexpr std::size_t kMaxNameBytes = 1024;

[[noreturn]] void invalid(const std::string& what) {
    throw Error(ErrorCode::kModelFileInvalid, what);
}

TensorType tensor_type(const std::string& dtype, const std::string& name) {
    static constexpr std::array<std::pair<std::string_view, TensorType>, 13> kTypes{{
        {"BOOL", TensorType::kBool},
        {"U8", TensorType::kU8},
        {"I8", TensorType::kI8},
        {"I16", TensorType::kI16},
        {"U16", TensorType::kU16},
        {"F16", TensorType::kF16},
        {"BF16", TensorType::kBf16},
        {"I32", TensorType::kI32},
        {"U32", TensorType::kU32},
        {"F32", TensorType::kF32},
        {"F64", TensorType::kF64},
        {"I64", TensorType::kI64},
        {"U64", TensorType::kU64},
    }};
    const auto found = std::ranges::find(kTypes, dtype, [](const auto& row) { return row.first; });
    if (found == kTypes.end()) invalid(name + " has the unsupported dtype \"" + dtype + "\"");
    return found->second;
}

const nlohmann::json& member(const nlohmann::json& entry, const char* key,
                             const std::string& name) {
    const auto found = entry.find(key);
    if (found == entry.end()) invalid(name + " has no " + key);
    return *found;
}

std::uint64_t count(const nlohmann::json& value, const std::string& what) {
    if (!value.is_number_unsigned()) invalid(what + " is not a count");
    return value.get<std::uint64_t>();
}

TensorInfo read_info(const nlohmann::json& entry, const std::string& name) {
    const auto& dtype = member(entry, "dtype", name);
    const auto& shape = member(entry, "shape", name);
    if (!dtype.is_string()) invalid(name + ": dtype is not a string");
    if (!shape.is_array() || shape.size() > kMaxDimensions) {
        invalid(name + ": shape is not a list of at most " + std::to_string(kMaxDimensions) +
                " extents");
    }
    TensorInfo info;
    info.type = tensor_type(dtype.get_ref<const std::string&>(), name);
    std::uint64_t elements = 1;
    for (const auto& dimension : shape) {
        const std::uint64_t extent = count(dimension, name + ": an extent");
        if (extent < 1 || extent > kMaxTensorElements / elements) {
            invalid(name + " has an impossible shape");
        }
        elements *= extent;
        info.shape.push_back(static_cast<std::int64_t>(extent));
    }
    info.elements = elements;
    info.bytes = tensor_bytes(info.type, elements);
    return info;
}

PlacedTensor read_tensor(const nlohmann::json& entry, const std::string& name,
                         std::size_t data_bytes) {
    if (name.empty() || name.size() > kMaxNameBytes) {
        invalid("a tensor has no name, or one of more than " + std::to_string(kMaxNameBytes) +
                " bytes");
    }
    if (!entry.is_object() || entry.size() != 3) {
        invalid(name + " is not described by dtype, shape and data_offsets");
    }
    PlacedTensor tensor{read_info(entry, name), 0};
    const auto& offsets = member(entry, "data_offsets", name);
    if (!offsets.is_array() || offsets.size() != 2) {
        invalid(name + ": data_offsets are not a begin and an end");
    }
    const std::uint64_t begin = count(offsets[0], name + ": the begin");
    const std::uint64_t end = count(offsets[1], name + ": the end");
    if (begin > end || end > data_bytes) invalid(name + " lies beyond the end of the file");
    if (end - begin != tensor.info.bytes) {
        invalid(name + " has " + std::to_string(end - begin) + " bytes where its shape needs " +
                std::to_string(tensor.info.bytes));
    }
    tensor.offset = begin;
    return tensor;
}

/// Checks that the tensors cover the data once, and moves their offsets behind the header.
void place(SafetensorsHeader& header, std::size_t data_start, std::size_t data_bytes) {
    std::vector<PlacedTensor*> by_offset;
    for (auto& [name, tensor] : header.tensors) by_offset.push_back(&tensor);
    std::ranges::sort(by_offset, {}, &PlacedTensor::offset);
    std::size_t expected = 0;
    for (PlacedTensor* tensor : by_offset) {
        if (tensor->offset != expected) {
            invalid("tensors overlap or leave a gap at byte " + std::to_string(expected) +
                    " of the data");
        }
        expected += tensor->info.bytes;
        tensor->offset += data_start;
    }
    if (expected != data_bytes) {
        invalid("the file goes on for " + std::to_string(data_bytes - expected) +
                " bytes behind its last tensor");
    }
}

}  // namespace

SafetensorsHeader parse_safetensors(std::span<const std::byte> file) {
    std::uint64_t length = 0;
    if (file.size() < sizeof(length)) invalid("the file is too short for a Safetensors header");
    std::memcpy(&length, file.data(), sizeof(length));
    const auto rest = file.subspan(sizeof(length));
    if (length > kMaxSafetensorsHeaderBytes || length > rest.size()) {
        invalid("a header of " + std::to_string(length) + " bytes does not fit");
    }
    const auto text = rest.first(static_cast<std::size_t>(length));
    const auto json = parse_json({reinterpret_cast<const char*>(text.data()), text.size()});
    if (text.empty() || text[0] != std::byte{'{'} || !json.is_object()) {
        invalid("the header is not a JSON object");
    }

    SafetensorsHeader header;
    const std::size_t data_bytes = rest.size() - text.size();
    for (const auto& [name, entry] : json.items()) {
        if (name == "__metadata__") {
            if (!entry.is_object()) invalid("__metadata__ is not an object");
            for (const auto& [key, value] : entry.items()) {
                if (!value.is_string()) invalid("__metadata__ " + key + " is not a string");
                header.metadata.emplace(key, value.get<std::string>());
            }
        } else {
            header.tensors.emplace(name, read_tensor(entry, name, data_bytes));
        }
    }
    place(header, sizeof(length) + text.size(), data_bytes);
    return header;
}

}  // namespace wavepool
