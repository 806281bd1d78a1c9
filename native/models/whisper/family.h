#pragma once

#include <memory>

#include "framework/models/model.h"

namespace wavepool::whisper {

/// Which code computes a checkpoint.
enum class Kernels {
    kBest,   ///< our own where processor, checkpoint and request allow, whisper.cpp's elsewhere
    kStock,  ///< whisper.cpp's
};

/// See Family::load and Family::plan (framework/models/model.h).
[[nodiscard]] std::shared_ptr<const ILoadedModel> load(const TensorSource& source);
[[nodiscard]] std::shared_ptr<const ILoadedModel> load(const TensorSource& source, Kernels kernels);
[[nodiscard]] ModelPlan plan(const TensorSource& source, const SessionOptions& options);

}  // namespace wavepool::whisper
