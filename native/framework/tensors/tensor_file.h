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

    /// Once, by the constructor of the format; the places have been checked against the file.
    void set_tensors(PlacedTensors tensors) { tensors_ = std::move(tensors); }
    [[nodiscard]] const MappedStorage& storage() const noexcept { return *storage_; }

  private:
    std::shared_ptr<const MappedStorage> storage_;
    PlacedTensors tensors_;
};

}  // namespace wavepool
