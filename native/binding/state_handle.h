#pragma once

#include <napi.h>

#include <memory>

#include "binding/wrapped.h"
#include "framework/sessions/session.h"

namespace wavepool::binding {

/// A task's state between requests. JS thread only, but for what a running request does with
/// `state`.
struct StateCore {
    std::shared_ptr<TaskState> state;
    bool in_use = false;  ///< a running request has it; another one is refused
};

/// Opaque to JavaScript.
class StateHandle : public Wrapped<StateHandle, StateCore> {
  public:
    static constexpr napi_type_tag kTypeTag{0x51b2a7f0c3de4c96, 0x84f1b6a90d27e533};

    static Napi::FunctionReference define(Napi::Env env) {
        return Napi::Persistent(DefineClass(env, "StateHandle", {}));
    }

    using Wrapped::Wrapped;
};

}  // namespace wavepool::binding
