#include "framework/tensor_type.h"

#include <ggml.h>

#include <bit>
#include <cstring>

namespace wavepool {
namespace {

static_assert(std::endian::native == std::endian::little,
              "model files are read without swapping bytes");

template <typename T>
T load(std::span<const std::byte> bytes, std::size_t index = 0) {
    T value;
    std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
    return value;
}

float from_bf16(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

void decode_q8_0(std::span<const std::byte> data, std::span<float> out) {
    constexpr std::size_t kBlockBytes = sizeof(ggml_fp16_t) + kQ8BlockValues;
    for (std::size_t i = 0; i < out.size(); ++i) {
        const auto block = data.subspan(i / kQ8BlockValues * kBlockBytes, kBlockBytes);
        const float scale = ggml_fp16_to_fp32(load<ggml_fp16_t>(block));
        const auto values = block.subspan(sizeof(ggml_fp16_t));
        out[i] = scale * static_cast<float>(load<std::int8_t>(values, i % kQ8BlockValues));
    }
}

template <typename T, typename Convert>
void decode_each(std::span<const std::byte> bytes, std::span<float> out, Convert convert) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = convert(load<T>(bytes, i));
}

template <typename T>
std::optional<double> exact(std::span<const std::byte> bytes) {
    const T value = load<T>(bytes);
    constexpr T kMost = T{1} << 53;
    if (value > kMost) return std::nullopt;
    if constexpr (std::is_signed_v<T>) {
        if (value < -kMost) return std::nullopt;
    }
    return static_cast<double>(value);
}

}  // namespace

std::string_view tensor_type_name(TensorType type) noexcept {
    switch (type) {
        case TensorType::kBool:
            return "bool";
        case TensorType::kI8:
            return "i8";
        case TensorType::kU8:
            return "u8";
        case TensorType::kI16:
            return "i16";
        case TensorType::kU16:
            return "u16";
        case TensorType::kI32:
            return "i32";
        case TensorType::kU32:
            return "u32";
        case TensorType::kI64:
            return "i64";
        case TensorType::kU64:
            return "u64";
        case TensorType::kF16:
            return "f16";
        case TensorType::kBf16:
            return "bf16";
        case TensorType::kF32:
            return "f32";
        case TensorType::kF64:
            return "f64";
        case TensorType::kQ8_0:
            return "q8_0";
    }
    return "unknown";
}

std::uint64_t tensor_bytes(TensorType type, std::uint64_t elements) noexcept {
    switch (type) {
        case TensorType::kBool:
        case TensorType::kI8:
        case TensorType::kU8:
            return elements;
        case TensorType::kI16:
        case TensorType::kU16:
        case TensorType::kF16:
        case TensorType::kBf16:
            return elements * 2;
        case TensorType::kI32:
        case TensorType::kU32:
        case TensorType::kF32:
            return elements * 4;
        case TensorType::kI64:
        case TensorType::kU64:
        case TensorType::kF64:
            return elements * 8;
        case TensorType::kQ8_0:
            return elements / kQ8BlockValues * (sizeof(ggml_fp16_t) + kQ8BlockValues);
    }
    return 0;
}

std::string shape_text(std::span<const std::int64_t> shape) {
    std::string text = "[";
    for (const std::int64_t extent : shape) {
        if (text.size() > 1) text += ", ";
        text += std::to_string(extent);
    }
    return text + "]";
}

bool decode_floats(TensorType type, std::span<const std::byte> bytes, std::span<float> out) {
    switch (type) {
        case TensorType::kF32:
            if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size_bytes());
            return true;
        case TensorType::kF16:
            decode_each<ggml_fp16_t>(bytes, out, ggml_fp16_to_fp32);
            return true;
        case TensorType::kBf16:
            decode_each<std::uint16_t>(bytes, out, from_bf16);
            return true;
        case TensorType::kF64:
            decode_each<double>(bytes, out, [](double value) { return static_cast<float>(value); });
            return true;
        case TensorType::kQ8_0:
            decode_q8_0(bytes, out);
            return true;
        default:
            return false;
    }
}

std::optional<double> decode_scalar(TensorType type, std::span<const std::byte> bytes) {
    switch (type) {
        case TensorType::kBool:
        case TensorType::kU8:
            return load<std::uint8_t>(bytes);
        case TensorType::kI8:
            return load<std::int8_t>(bytes);
        case TensorType::kI16:
            return load<std::int16_t>(bytes);
        case TensorType::kU16:
            return load<std::uint16_t>(bytes);
        case TensorType::kI32:
            return load<std::int32_t>(bytes);
        case TensorType::kU32:
            return load<std::uint32_t>(bytes);
        case TensorType::kI64:
            return exact<std::int64_t>(bytes);
        case TensorType::kU64:
            return exact<std::uint64_t>(bytes);
        case TensorType::kF16:
            return ggml_fp16_to_fp32(load<ggml_fp16_t>(bytes));
        case TensorType::kBf16:
            return from_bf16(load<std::uint16_t>(bytes));
        case TensorType::kF32:
            return load<float>(bytes);
        case TensorType::kF64:
            return load<double>(bytes);
        case TensorType::kQ8_0:
            break;
    }
    return std::nullopt;
}

}  // namespace wavepool
