#pragma once

#include <filesystem>
#include <memory>

#include "framework/model.h"

namespace wavepool::moonshine {

/// Moonshine (Jeffries et al. 2024, arXiv:2410.15608): an encoder-decoder speech recognizer on raw
/// 16 kHz audio. Loads the GGUF that src/models writes (general.architecture = "moonshine").
[[nodiscard]] std::shared_ptr<const ILoadedModel> load(const std::filesystem::path& file);

}  // namespace wavepool::moonshine
