#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace wavepool {

/// A weight as the file has it, turned into f32 on request. `shape` is outermost first (PyTorch
/// order).
struct TensorInfo {
    std::vector<std::int64_t> shape;
    std::string type;  ///< "f32", "f16", "i8", …
};

/// A validated GGUF v3 file, memory-mapped. Damaged, truncated or hostile files are refused when
/// opening, before any of their sizes is trusted. Immutable and thread-safe after construction.
///
/// Integer tensors keep the exact numbers of their source: an i8 tensor NAME comes with two f32
/// tensors of one element, NAME.scale and NAME.offset, and stands for scale · q + offset.
class GgufFile {
  public:
    /// Throws Error{kInputNotFound | kModelFileInvalid}.
    explicit GgufFile(const std::filesystem::path& file);
    ~GgufFile();
    GgufFile(const GgufFile&) = delete;
    GgufFile& operator=(const GgufFile&) = delete;

    /// Metadata; each throws Error{kModelFileInvalid} when the key is missing or of another type.
    [[nodiscard]] std::string string(std::string_view key) const;
    [[nodiscard]] std::int64_t integer(std::string_view key) const;
    [[nodiscard]] double number(std::string_view key) const;
    [[nodiscard]] std::vector<std::string> strings(std::string_view key) const;

    [[nodiscard]] std::optional<TensorInfo> find(std::string_view name) const;

    /// The tensor as f32 (integers dequantized), after checking that it exists with exactly this
    /// shape. Throws Error{kModelFileInvalid} naming the tensor, the expected and the found shape.
    [[nodiscard]] std::vector<float> f32(std::string_view name,
                                         std::span<const std::int64_t> shape) const;

    /// The exact stored integers of an i8 tensor with its scale and offset, for kernels that use
    /// them.
    struct Int8Tensor {
        std::span<const std::int8_t> values;  ///< borrowed from the mapping
        float scale = 1;
        float offset = 0;
    };
    [[nodiscard]] Int8Tensor i8(std::string_view name, std::span<const std::int64_t> shape) const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace wavepool
