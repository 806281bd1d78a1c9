#pragma once

#include <memory>

#include "framework/tensors/mapped_storage.h"
#include "framework/tensors/tensor_source.h"

namespace wavepool {

/// A checkpoint of one Safetensors file. Its metadata are the strings of __metadata__. Throws
/// Error{kModelFileInvalid}.
[[nodiscard]] std::shared_ptr<const TensorSource> open_safetensors(
    std::shared_ptr<const MappedStorage> storage);

/// The checkpoint that an index (model.safetensors.index.json) describes; its files lie beside it
/// and are opened with the index's options. Only tensors that the index names are part of it.
/// Throws Error{kInputNotFound | kModelFileInvalid}.
[[nodiscard]] std::shared_ptr<const TensorSource> open_safetensors_index(
    const MappedStorage& index);

}  // namespace wavepool
