#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "framework/sessions/session.h"

namespace wavepool {

/// Runs offline requests on one session, whatever interfaces it has, and reports every item exactly
/// once, as soon as it has ended. An item that is cancelled already, or that prepare() refuses,
/// ends with that error and takes no part in the native batch; a session without the batch
/// interface runs the items one after another. Called on the thread that leases the session.
///
/// Throws what fails the batch as a whole, after which unreported items have no outcome:
/// Error{kInvalidRequest} for a session without offline interface or more than its max_batch()
/// requests, Error{kInternal} when the session breaks its contract (outcomes missing, repeated or
/// out of range).
void run_items(IVoiceTaskSession& session, std::span<const TaskRequest> requests,
               const std::function<void(std::size_t index, TaskOutcome outcome)>& report);

}  // namespace wavepool
