#pragma once

#include <span>
#include <vector>

#include "framework/sessions/session.h"
#include "models/whisper/decoding/shared_model.h"
#include "models/whisper/decoding/window.h"

namespace wavepool::whisper {

/// The result of a request from its decoded windows, without words. Times lie within [0, seconds].
[[nodiscard]] TaskResult transcript_of(const SharedModel& model, std::span<const Window> windows,
                                       int language, double seconds);

}  // namespace wavepool::whisper
