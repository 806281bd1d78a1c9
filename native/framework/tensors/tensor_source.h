#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "framework/tensors/mapped_storage.h"
#include "framework/tensors/tensor_type.h"

namespace wavepool {

/// A metadata value; monostate stands for a value of a type that nothing here reads.
using MetadataValue =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::string>>;

/// Named tensors and metadata of a checkpoint, whatever its format and number of files. What a file
/// declares has been checked against the bytes that are there before a source exists. Names, shapes
/// and metadata are immutable; the storage behind them is mapped when a tensor is read.
///
/// A synchronized source may be used by any threads at once, release_storage() included. Without
/// that option, one thread at a time.
///
/// Integer tensors keep the exact numbers of their source: an i8 tensor NAME comes with two f32
/// tensors of one element, NAME.scale and NAME.offset, and stands for scale · q + offset.
class TensorSource {
  public:
    TensorSource() = default;
    TensorSource(const TensorSource&) = delete;
    TensorSource& operator=(const TensorSource&) = delete;
    virtual ~TensorSource() = default;

    /// The name that messages use: the path, for a source that is one file.
    [[nodiscard]] virtual std::string description() const = 0;
    [[nodiscard]] virtual bool synchronized() const noexcept = 0;

    /// The names of all tensors, in ascending order.
    [[nodiscard]] virtual std::vector<std::string> names() const = 0;
    [[nodiscard]] virtual std::optional<TensorInfo> find(std::string_view name) const = 0;
    [[nodiscard]] virtual std::optional<MetadataValue> metadata(std::string_view key) const = 0;

    /// The tensor as it is stored. Throws Error{kModelFileInvalid} when there is none.
    [[nodiscard]] virtual StoredBytes stored(std::string_view name) const = 0;

    /// Gives up the memory behind the tensors; the next read brings it back. Bytes that somebody
    /// still holds stay valid.
    virtual void release_storage() const = 0;

    // Metadata; each throws Error{kModelFileInvalid} when the key is missing or of another type.
    [[nodiscard]] std::string string(std::string_view key) const;
    [[nodiscard]] std::int64_t integer(std::string_view key) const;
    [[nodiscard]] double number(std::string_view key) const;  ///< a finite float
    [[nodiscard]] std::vector<std::string> strings(std::string_view key) const;

    /// Checks that the tensor exists with exactly this shape. Throws Error{kModelFileInvalid}
    /// naming the tensor, the expected and the found shape; so do the readers below.
    TensorInfo expect(std::string_view name, std::span<const std::int64_t> shape) const;

    /// The values as f32, i8 dequantized, outermost dimension first. Also throws
    /// Error{kModelFileInvalid} for numbers that are not finite, and for other integers.
    [[nodiscard]] std::vector<float> f32(std::string_view name,
                                         std::span<const std::int64_t> shape) const;

    /// The exact integers of an i8 tensor with its scale and offset, for kernels that use them.
    struct Int8Tensor {
        std::vector<std::int8_t> values;
        float scale = 1;
        float offset = 0;
    };
    [[nodiscard]] Int8Tensor i8(std::string_view name, std::span<const std::int64_t> shape) const;

    /// The value of a tensor of one element, exactly.
    [[nodiscard]] double scalar(std::string_view name) const;

  protected:
    [[noreturn]] void invalid(const std::string& what) const;

  private:
    [[nodiscard]] MetadataValue value(std::string_view key) const;
    [[nodiscard]] TensorInfo info(std::string_view name) const;
    [[nodiscard]] float companion(std::string_view name, std::string_view suffix) const;
    [[nodiscard]] Int8Tensor int8(std::string_view name) const;
};

/// Opens a checkpoint by what its file holds: GGUF, Safetensors, the JSON index of a sharded
/// Safetensors checkpoint, or whisper.cpp's ggml format. The first of several GGUF files
/// (NAME-00001-of-00002.gguf), or any other of them, stands for all. `options` hold for every file.
/// Throws Error{kInputNotFound | kModelFileInvalid}.
[[nodiscard]] std::shared_ptr<const TensorSource> open_tensor_source(
    const std::filesystem::path& file, TensorSourceOptions options = {});

}  // namespace wavepool
