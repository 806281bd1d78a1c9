#pragma once

#include <memory>

#include "framework/tensors/mapped_storage.h"
#include "framework/tensors/tensor_source.h"

namespace wavepool {

/// A GGUF v3 checkpoint: this file, or all files of the split that it belongs to, which are then
/// opened with the same options. Metadata are those of the first file. Throws
/// Error{kInputNotFound | kModelFileInvalid}.
[[nodiscard]] std::shared_ptr<const TensorSource> open_gguf(
    std::shared_ptr<const MappedStorage> storage);

}  // namespace wavepool
