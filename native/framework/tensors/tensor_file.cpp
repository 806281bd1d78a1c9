#include "framework/tensors/tensor_file.h"

#include <utility>

namespace wavepool {

std::vector<std::string> TensorFile::names() const {
    std::vector<std::string> names;
    names.reserve(tensors_.size());
    for (const auto& [name, tensor] : tensors_) names.push_back(name);
    return names;
}

std::optional<TensorInfo> TensorFile::find(std::string_view name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) return std::nullopt;
    return found->second.info;
}

StoredBytes TensorFile::stored(std::string_view name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) invalid(std::string(name) + " is missing");
    StoredBytes file = storage_->bytes();
    file.bytes = file.bytes.subspan(found->second.offset, found->second.info.bytes);
    return file;
}

}  // namespace wavepool
