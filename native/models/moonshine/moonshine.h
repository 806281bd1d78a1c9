#pragma once

#include <memory>

#include "framework/models/model.h"
#include "models/moonshine/checkpoint.h"

namespace wavepool::moonshine {

/// Moonshine (Jeffries et al. 2024, arXiv:2410.15608): an encoder-decoder speech recognizer on raw
/// 16 kHz audio. Loads the GGUF that src/models writes (general.architecture = "moonshine").
[[nodiscard]] std::shared_ptr<const ILoadedModel> load(const TensorSource& source);

/// Loads the same file for the kernels that were chosen.
[[nodiscard]] std::shared_ptr<const ILoadedModel> load(const TensorSource& source, Kernels kernels);

/// Computes the plan of a model: see Family::plan (framework/models/model.h).
[[nodiscard]] ModelPlan plan(const TensorSource& source, const SessionOptions& options);

}  // namespace wavepool::moonshine
