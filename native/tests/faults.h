#pragma once

#include <string_view>

#include "framework/cancellation.h"

namespace wavepool::fake {

/// Faults that a test arms for every fake model and session of the process:
///
///   load        loading a model throws kModelLoadFailed
///   clone       creating a parallel session throws kModelLoadFailed
///   prepare     prepare() throws kInvalidRequest
///   run         a run throws kInternal; a batch throws as a whole
///   abort       a run ends the process with abort()
///   hang        a run ends only when it is cancelled
///   gate        a run waits until the gate is disarmed, or the run is cancelled
///   leak        a result shows the request before it in the same session
///   first-run   the first result of a session differs from its later ones
///   lose-item   a batch returns one outcome too few
void set_fault(std::string_view name, bool armed);  ///< throws kInvalidRequest for other names
[[nodiscard]] bool fault_armed(std::string_view name);
void clear_faults();

/// Returns once `cancel` is raised.
void hang_until(const CancelToken& cancel);
/// Returns once "gate" is not armed, or `cancel` is raised.
void wait_at_gate(const CancelToken& cancel);

}  // namespace wavepool::fake
