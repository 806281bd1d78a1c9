#pragma once

#include <memory>

#include "framework/models/model.h"

namespace wavepool::silero_vad {

/// Silero VAD v6, 16 kHz (github.com/snakers4/silero-vad): one speech probability per 512-sample
/// window. Loads the GGUF that src/models writes (general.architecture = "silero-vad") and the
/// Safetensors file of the release, which has the same tensors under the same names; throws what
/// Family::load says.
///
/// The requests of a TaskState follow each other in the input without gap or overlap (the first one
/// may start anywhere), each a whole number of windows. A request may end with a part of a window,
/// which is filled up with zeros; it is then the last one of its state. There is no limit on the
/// length of a request, nor do sessions grow with it, and there are no options.
///
/// A request that fails or is cancelled leaves its state as it was. A state that another request is
/// using, also in the same batch, is refused. Errors of a request: kInvalidRequest for what breaks
/// these rules, kInputEmpty for no samples, kInputUndecodable for samples that are not finite (or
/// beyond ±1e6), kCancelled.
///
/// In streaming mode a session takes one live input in chunks of any size (stream_session.h) and
/// gives the probabilities of the windows that became complete, the same as offline.
///
/// Probabilities are the same bits however an input is cut into requests and whatever else is in
/// the batch. A session computes on its calling thread only, whatever SessionOptions::threads says:
/// parallelism is sessions.
[[nodiscard]] std::shared_ptr<const ILoadedModel> load(const TensorSource& source);

/// What Family::plan says.
[[nodiscard]] ModelPlan plan(const TensorSource& source, const SessionOptions& options);

/// By the names of the tensors.
[[nodiscard]] bool recognizes(const TensorSource& source);

}  // namespace wavepool::silero_vad
