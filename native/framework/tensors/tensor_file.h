#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/tensors/tensor_source.h"

namespace wavepool {

/// A tensor and where in its file its bytes begin.
struct PlacedTensor {
    TensorInfo info;
    std::size_t offset = 0;
};
using PlacedTensors = std::map<std::string, PlacedTensor, std::less<>>;

/// A source that is one file: what the formats have in common once their headers are read.
class TensorFile : public TensorSource {
  public:
    [[nodiscard]] std::string description() const override { return storage_->file().string(); }
    [[nodiscard]] bool synchronized() const noexcept override {
        return storage_->options().synchronized;
    }
    [[nodiscard]] std::vector<std::string> names() const override;
    [[nodiscard]] std::optional<TensorInfo> find(std::string_view name) const override;
    [[nodiscard]] StoredBytes stored(std::string_view name) const override;
    void release_storage() const override { storage_->release(); }

  protected:
    explicit TensorFile(std::shared_ptr<const MappedStorage> storage)
        : storage_(std::move(storage)) {}

    /// Called once, by the constructor of the format, with places that have been checked against
    /// the file.
    void set_tensors(PlacedTensors tensors) { tensors_ = std::move(tensors); }
    [[nodiscard]] const MappedStorage& storage() const noexcept { return *storage_; }

  private:
    std::shared_ptr<const MappedStorage> storage_;
    PlacedTensors tensors_;
};

// The readers of the formats, among which open_tensor_source() chooses.

/// A GGUF v3 checkpoint: this file, or all files of the split that it belongs to, which are then
/// opened with the same options. Metadata are those of the first file. Throws
/// Error{kInputNotFound | kModelFileInvalid}.
[[nodiscard]] std::shared_ptr<const TensorSource> open_gguf(
    std::shared_ptr<const MappedStorage> storage);

/// A checkpoint of one Safetensors file. Its metadata are the strings of __metadata__. Throws
/// Error{kModelFileInvalid}.
[[nodiscard]] std::shared_ptr<const TensorSource> open_safetensors(
    std::shared_ptr<const MappedStorage> storage);

/// The checkpoint that an index (model.safetensors.index.json) describes; its files lie beside it
/// and are opened with the index's options. Only tensors that the index names are part of it.
/// Throws Error{kInputNotFound | kModelFileInvalid}.
[[nodiscard]] std::shared_ptr<const TensorSource> open_safetensors_index(
    const MappedStorage& index);

/// A Whisper checkpoint as whisper.cpp's converters write it (ggml-NAME.bin). Its metadata are
/// general.architecture "whisper" and what ggml_bin_header.h names. Throws
/// Error{kModelFileInvalid}.
[[nodiscard]] std::shared_ptr<const TensorSource> open_ggml_bin(
    std::shared_ptr<const MappedStorage> storage);

}  // namespace wavepool
