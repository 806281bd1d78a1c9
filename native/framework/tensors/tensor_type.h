#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace wavepool {

/// How the numbers of a stored tensor are encoded.
enum class TensorType {
    kBool,
    kI8,
    kU8,
    kI16,
    kU16,
    kI32,
    kU32,
    kI64,
    kU64,
    kF16,
    kBf16,
    kF32,
    kF64,
    kQ8_0,  ///< blocks of 32 values: an f16 scale, then 32 i8
    // ggml's other quantized types, in blocks of 32 or (K) 256 values.
    kQ4_0,
    kQ4_1,
    kQ5_0,
    kQ5_1,
    kQ2K,
    kQ3K,
    kQ4K,
    kQ5K,
    kQ6K,
};

inline constexpr std::uint64_t kQ8BlockValues = 32;

/// Values that are stored together; 1 for types without blocks. Rows are whole blocks.
[[nodiscard]] std::uint64_t block_values(TensorType type) noexcept;

/// The type that ggml's files give this number, and back; floats and quantized types only.
[[nodiscard]] std::optional<TensorType> tensor_type_of_ggml(std::uint32_t number) noexcept;
[[nodiscard]] std::optional<std::uint32_t> ggml_number(TensorType type) noexcept;

/// With at most this many elements the bytes of a tensor of any type fit 64 bits.
inline constexpr std::uint64_t kMaxTensorElements = std::uint64_t{1} << 48;

/// A tensor as its file has it. `shape` is outermost first (PyTorch order); a scalar has none.
struct TensorInfo {
    TensorType type = TensorType::kF32;
    std::vector<std::int64_t> shape;
    std::size_t elements = 1;
    std::size_t bytes = 0;
};

[[nodiscard]] std::string_view tensor_type_name(TensorType type) noexcept;  ///< "f32", "q8_0", …

/// Bytes of `elements` values, a whole number of blocks, of at most kMaxTensorElements.
[[nodiscard]] std::uint64_t tensor_bytes(TensorType type, std::uint64_t elements) noexcept;

[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);  ///< "[2, 3]"

/// Decodes a type of floating-point numbers; false for the others.
[[nodiscard]] bool decode_floats(TensorType type, std::span<const std::byte> bytes,
                                 std::span<float> out);

/// Whether every number (of a quantized type: every scale) is finite. True for integers.
[[nodiscard]] bool all_finite(TensorType type, std::span<const std::byte> bytes) noexcept;

/// The first value, exactly; nothing where a double cannot hold it (large 64-bit integers) and for
/// quantized types.
[[nodiscard]] std::optional<double> decode_scalar(TensorType type,
                                                  std::span<const std::byte> bytes);

}  // namespace wavepool
