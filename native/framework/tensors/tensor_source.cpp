#include "framework/tensors/tensor_source.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "framework/error.h"
#include "framework/tensors/ggml_bin_header.h"
#include "framework/tensors/tensor_file.h"

namespace wavepool {
namespace {

enum class Format { kGguf, kGgmlBin, kSafetensors, kSafetensorsIndex, kUnknown };

Format format_of(std::span<const std::byte> file) {
    const auto at = [&](std::size_t i) { return static_cast<char>(file[i]); };
    if (file.size() >= 4 && std::memcmp(file.data(), "GGUF", 4) == 0) return Format::kGguf;
    std::uint32_t magic = 0;
    if (file.size() >= sizeof(magic)) std::memcpy(&magic, file.data(), sizeof(magic));
    if (magic == kGgmlBinMagic) return Format::kGgmlBin;
    // A Safetensors file begins with the length of its JSON header, which an index could resemble
    // in its ninth byte but not in its size.
    const bool json_follows = file.size() > sizeof(std::uint64_t) && at(8) == '{';
    std::uint64_t length = 0;
    if (json_follows) std::memcpy(&length, file.data(), sizeof(length));
    if (json_follows && length <= file.size() - sizeof(length)) return Format::kSafetensors;
    const bool json = std::string_view("{ \t\r\n").find(at(0)) != std::string_view::npos;
    if (json) return Format::kSafetensorsIndex;
    return json_follows ? Format::kSafetensors : Format::kUnknown;
}

}  // namespace

void TensorSource::invalid(const std::string& what) const {
    throw Error(ErrorCode::kModelFileInvalid, description() + ": " + what);
}

MetadataValue TensorSource::value(std::string_view key) const {
    auto found = metadata(key);
    if (!found) invalid(std::string(key) + " is missing");
    return *std::move(found);
}

std::string TensorSource::string(std::string_view key) const {
    const MetadataValue found = value(key);
    if (const auto* text = std::get_if<std::string>(&found)) return *text;
    invalid(std::string(key) + " is not a string");
}

std::int64_t TensorSource::integer(std::string_view key) const {
    const MetadataValue found = value(key);
    if (const auto* integer = std::get_if<std::int64_t>(&found)) return *integer;
    invalid(std::string(key) + " is not an integer of 64 bits");
}

double TensorSource::number(std::string_view key) const {
    const MetadataValue found = value(key);
    if (const auto* number = std::get_if<double>(&found);
        number != nullptr && std::isfinite(*number)) {
        return *number;
    }
    invalid(std::string(key) + " is not a finite float");
}

std::vector<std::string> TensorSource::strings(std::string_view key) const {
    MetadataValue found = value(key);
    if (auto* list = std::get_if<std::vector<std::string>>(&found)) return std::move(*list);
    invalid(std::string(key) + " is not an array of strings");
}

TensorInfo TensorSource::info(std::string_view name) const {
    auto found = find(name);
    if (!found) invalid(std::string(name) + " is missing");
    return *std::move(found);
}

TensorInfo TensorSource::expect(std::string_view name, std::span<const std::int64_t> shape) const {
    auto found = find(name);
    if (!found) invalid(std::string(name) + " is missing; expected shape " + shape_text(shape));
    if (!std::ranges::equal(found->shape, shape)) {
        invalid(std::string(name) + " has shape " + shape_text(found->shape) + ", expected " +
                shape_text(shape));
    }
    return *std::move(found);
}

float TensorSource::companion(std::string_view name, std::string_view suffix) const {
    const std::string full = std::string(name) + std::string(suffix);
    const auto found = find(full);
    if (!found || found->elements != 1 || found->type != TensorType::kF32) {
        invalid(std::string(name) + " is i8 and needs " + full + ", one f32 element");
    }
    float value = 0;
    (void)decode_floats(found->type, stored(full).bytes, std::span(&value, 1));
    if (!std::isfinite(value)) invalid(full + " is not finite");
    return value;
}

TensorSource::Int8Tensor TensorSource::int8(std::string_view name) const {
    const StoredBytes data = stored(name);
    Int8Tensor tensor;
    tensor.scale = companion(name, ".scale");
    tensor.offset = companion(name, ".offset");
    tensor.values.resize(data.bytes.size());
    std::memcpy(tensor.values.data(), data.bytes.data(), data.bytes.size());
    return tensor;
}

TensorSource::Int8Tensor TensorSource::i8(std::string_view name,
                                          std::span<const std::int64_t> shape) const {
    const TensorInfo found = expect(name, shape);
    if (found.type != TensorType::kI8) {
        invalid(std::string(name) + " is " + std::string(tensor_type_name(found.type)) +
                ", expected i8");
    }
    return int8(name);
}

std::vector<float> TensorSource::f32(std::string_view name,
                                     std::span<const std::int64_t> shape) const {
    const TensorInfo found = expect(name, shape);
    std::vector<float> values(found.elements);
    if (found.type == TensorType::kI8) {
        const Int8Tensor tensor = int8(name);
        for (std::size_t i = 0; i < values.size(); ++i) {
            values[i] = tensor.scale * static_cast<float>(tensor.values[i]) + tensor.offset;
        }
    } else if (!decode_floats(found.type, stored(name).bytes, values)) {
        invalid(std::string(name) + " is " + std::string(tensor_type_name(found.type)) +
                ", expected floating-point numbers");
    }
    if (!std::ranges::all_of(values, [](float v) { return std::isfinite(v); })) {
        invalid(std::string(name) + " holds a number that is not finite");
    }
    return values;
}

double TensorSource::scalar(std::string_view name) const {
    const TensorInfo found = info(name);
    if (found.elements != 1) {
        invalid(std::string(name) + " has shape " + shape_text(found.shape) +
                ", expected one element");
    }
    const auto value = decode_scalar(found.type, stored(name).bytes);
    if (!value || !std::isfinite(*value)) {
        invalid(std::string(name) + " is not a number that can be read exactly");
    }
    return *value;
}

std::shared_ptr<const TensorSource> open_tensor_source(const std::filesystem::path& file,
                                                       TensorSourceOptions options) {
    auto storage = std::make_shared<const MappedStorage>(file, options);
    switch (format_of(storage->bytes().bytes)) {
        case Format::kGguf:
            return open_gguf(std::move(storage));
        case Format::kGgmlBin:
            return open_ggml_bin(std::move(storage));
        case Format::kSafetensors:
            return open_safetensors(std::move(storage));
        case Format::kSafetensorsIndex:
            return open_safetensors_index(*storage);
        case Format::kUnknown:
            break;
    }
    throw Error(ErrorCode::kModelFileInvalid,
                file.string() + ": neither GGUF nor Safetensors nor a ggml file nor an index");
}

}  // namespace wavepool
