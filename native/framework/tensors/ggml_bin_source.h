#pragma once

#include <memory>

#include "framework/tensors/mapped_storage.h"
#include "framework/tensors/tensor_source.h"

namespace wavepool {

/// A Whisper checkpoint as whisper.cpp's converters write it (ggml-NAME.bin). Its metadata are
/// general.architecture "whisper" and what ggml_bin_header.h names. Throws
/// Error{kModelFileInvalid}.
[[nodiscard]] std::shared_ptr<const TensorSource> open_ggml_bin(
    std::shared_ptr<const MappedStorage> storage);

}  // namespace wavepool
