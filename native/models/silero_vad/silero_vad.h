#pragma once

#include <filesystem>
#include <memory>

#include "framework/model.h"

namespace wavepool::silero_vad {

/// Silero VAD v6, 16 kHz (github.com/snakers4/silero-vad): one speech probability per 512-sample
/// window. Loads the GGUF that src/models writes (general.architecture = "silero-vad"). A request
/// covers whole windows in the order of the input; its TaskState carries the LSTM state and the 64
/// samples before the request.
[[nodiscard]] std::shared_ptr<const ILoadedModel> load(const std::filesystem::path& file);

}  // namespace wavepool::silero_vad
