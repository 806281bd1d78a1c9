#pragma once

#include <string_view>

#include "framework/cancellation.h"

namespace wavepool::fake {

/// Faults that a test arms for every fake model and session of the process:
///
///   load        loading a model throws kModelLoadFailed
///   clone       creating a parallel session throws kModelLoadFailed
///   second-clone, null-clone, clone-family, clone-task, clone-mode
///               the second clone of a primary throws, is null, or is of another family, task, mode
///   null-primary  a model makes no session
///   prepare     prepare() throws kInvalidRequest
///   run         a run throws kInternal; a batch throws as a whole
///   abort       a run ends the process with abort()
///   hang        a run ends only when it is cancelled
///   gate        a run waits until the gate is disarmed, or the run is cancelled
///   leak        a result shows the request before it in the same session
///   first-run   the first result of a session differs from its later ones
///   lose-item   a batch returns one outcome too few
///
/// Gates hold whoever reaches them until they are disarmed: load-gate, clone-gate, prepare-gate
/// (or until the request is cancelled) and destroy-gate (the end of a session).
void set_fault(std::string_view name, bool armed);  ///< throws kInvalidRequest for other names
[[nodiscard]] bool fault_armed(std::string_view name);
void clear_faults();

/// Returns once `cancel` is raised.
void hang_until(const CancelToken& cancel);
/// Returns once the gate is not armed, or `cancel` is raised.
void wait_at_gate(std::string_view gate, const CancelToken& cancel);
/// Returns once the gate is not armed.
void wait_at_gate(std::string_view gate);

}  // namespace wavepool::fake
