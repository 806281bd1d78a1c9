#pragma once

#include <functional>
#include <memory>

#include "framework/sessions/session.h"

namespace wavepool::fake {

/// The streaming session of a fake family, over an offline session of the same model that computes
/// its results. "fake" hears everything before it answers: its text and tokens come with the end
/// and are those of the whole input. "fake-vad" gives the probabilities of each window as it
/// becomes complete; a part of a window at the end is filled up with zeros.
///
/// Faults (faults.h), armed or as the option `fault` of the stream: "prepare" at the start; "run",
/// "hang", "gate" and "abort" in every chunk and at the end. What a clone is follows from
/// `offline`, which was made with the options of the streaming mode. `create_state` is the model's.
[[nodiscard]] std::unique_ptr<IVoiceTaskSession> create_stream_session(
    std::unique_ptr<IVoiceTaskSession> offline,
    std::function<std::shared_ptr<TaskState>()> create_state);

}  // namespace wavepool::fake
