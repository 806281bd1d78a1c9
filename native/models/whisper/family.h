#pragma once

#include <memory>

#include "framework/model.h"

namespace wavepool::whisper {

/// See Family::load and Family::plan (framework/model.h).
[[nodiscard]] std::shared_ptr<const ILoadedModel> load(const TensorSource& source);
[[nodiscard]] ModelPlan plan(const TensorSource& source, const SessionOptions& options);

}  // namespace wavepool::whisper
