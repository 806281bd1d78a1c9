#include "framework/tensors/tensor_type.h"

#include <ggml.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
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

/// A quantized type of ggml.
struct Quantized {
    TensorType type;
    std::string_view name;
    ggml_type ggml;
    std::uint64_t block_values;
    std::size_t block_bytes;
    std::size_t scales_at;  ///< where in a block its f16 scales are
    std::size_t scales;
};

constexpr std::array kQuantized{
    Quantized{TensorType::kQ8_0, "q8_0", GGML_TYPE_Q8_0, kQ8BlockValues, 34, 0, 1},
    Quantized{TensorType::kQ4_0, "q4_0", GGML_TYPE_Q4_0, 32, 18, 0, 1},
    Quantized{TensorType::kQ4_1, "q4_1", GGML_TYPE_Q4_1, 32, 20, 0, 2},
    Quantized{TensorType::kQ5_0, "q5_0", GGML_TYPE_Q5_0, 32, 22, 0, 1},
    Quantized{TensorType::kQ5_1, "q5_1", GGML_TYPE_Q5_1, 32, 24, 0, 2},
    Quantized{TensorType::kQ2K, "q2_k", GGML_TYPE_Q2_K, 256, 84, 80, 2},
    Quantized{TensorType::kQ3K, "q3_k", GGML_TYPE_Q3_K, 256, 110, 108, 1},
    Quantized{TensorType::kQ4K, "q4_k", GGML_TYPE_Q4_K, 256, 144, 0, 2},
    Quantized{TensorType::kQ5K, "q5_k", GGML_TYPE_Q5_K, 256, 176, 0, 2},
    Quantized{TensorType::kQ6K, "q6_k", GGML_TYPE_Q6_K, 256, 210, 208, 1},
};

const Quantized* quantized(TensorType type) noexcept {
    const auto found = std::ranges::find(kQuantized, type, &Quantized::type);
    return found == kQuantized.end() ? nullptr : &*found;
}

/// `out` is whole blocks.
void decode_blocks(const Quantized& type, std::span<const std::byte> data, std::span<float> out) {
    // Files do not align their blocks; ggml's decoder wants them aligned.
    alignas(8) std::array<std::byte, 256> block;
    const auto decode = ggml_get_type_traits(type.ggml)->to_float;
    for (std::size_t i = 0; i < out.size() / type.block_values; ++i) {
        std::memcpy(block.data(), data.data() + i * type.block_bytes, type.block_bytes);
        decode(block.data(), out.data() + i * type.block_values,
               static_cast<std::int64_t>(type.block_values));
    }
}

bool finite_f16(std::uint16_t bits) {
    constexpr std::uint16_t kExponent = 0x7c00;
    return (bits & kExponent) != kExponent;
}

template <typename T, typename Check>
bool all_of(std::span<const std::byte> bytes, Check check) {
    bool finite = true;
    for (std::size_t i = 0; i < bytes.size() / sizeof(T); ++i) finite &= check(load<T>(bytes, i));
    return finite;
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
        default:
            return quantized(type)->name;
    }
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
        default: {
            const Quantized& blocks = *quantized(type);
            return elements / blocks.block_values * blocks.block_bytes;
        }
    }
}

std::uint64_t block_values(TensorType type) noexcept {
    const Quantized* blocks = quantized(type);
    return blocks == nullptr ? 1 : blocks->block_values;
}

std::optional<TensorType> tensor_type_of_ggml(std::uint32_t number) noexcept {
    if (number == GGML_TYPE_F32) return TensorType::kF32;
    if (number == GGML_TYPE_F16) return TensorType::kF16;
    if (number == GGML_TYPE_BF16) return TensorType::kBf16;
    const auto found = std::ranges::find_if(
        kQuantized, [&](const Quantized& each) { return number == each.ggml; });
    if (found == kQuantized.end()) return std::nullopt;
    return found->type;
}

std::optional<std::uint32_t> ggml_number(TensorType type) noexcept {
    if (type == TensorType::kF32) return GGML_TYPE_F32;
    if (type == TensorType::kF16) return GGML_TYPE_F16;
    if (type == TensorType::kBf16) return GGML_TYPE_BF16;
    if (const Quantized* blocks = quantized(type)) return blocks->ggml;
    return std::nullopt;
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
        default:
            if (const Quantized* blocks = quantized(type)) {
                decode_blocks(*blocks, bytes, out);
                return true;
            }
            return false;
    }
}

bool all_finite(TensorType type, std::span<const std::byte> bytes) noexcept {
    switch (type) {
        case TensorType::kF32:
            return all_of<float>(bytes, [](float value) { return std::isfinite(value); });
        case TensorType::kF64:
            return all_of<double>(bytes, [](double value) { return std::isfinite(value); });
        case TensorType::kF16:
            return all_of<std::uint16_t>(bytes, finite_f16);
        case TensorType::kBf16:
            return all_of<std::uint16_t>(
                bytes, [](std::uint16_t bits) { return std::isfinite(from_bf16(bits)); });
        default:
            break;
    }
    const Quantized* blocks = quantized(type);
    if (blocks == nullptr) return true;
    for (std::size_t at = blocks->scales_at; at < bytes.size(); at += blocks->block_bytes) {
        for (std::size_t i = 0; i < blocks->scales; ++i) {
            if (!finite_f16(load<std::uint16_t>(bytes.subspan(at), i))) return false;
        }
    }
    return true;
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
        default:
            return std::nullopt;
    }
}

}  // namespace wavepool
