#pragma once

#include <napi.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "binding/js_thread.h"
#include "binding/pool_handle.h"
#include "binding/wrapped.h"
#include "framework/cancellation.h"
#include "framework/sessions/session.h"

namespace wavepool::binding {

/// One stream on one slot, from startStream() to its end. JS thread only, but for what a running
/// call does with the slot.
struct StreamCore {
    std::shared_ptr<PoolCore> pool;
    std::size_t slot = 0;
    std::shared_ptr<JsThread> js_thread;
    CancelToken token = CancelToken::create();
    bool open = false;     ///< started and not ended: the slot is this stream's
    bool calling = false;  ///< a call runs on the slot's executor
    /// Whether a reset was asked for while a call was running. Such resets wait for its end.
    bool reset_asked = false;
    std::vector<Napi::Promise::Deferred> waiting_resets;
};

/// A handle to a stream. When it is garbage-collected, a stream that is still open is reset.
class StreamHandle : public Wrapped<StreamHandle, StreamCore> {
  public:
    static constexpr napi_type_tag kTypeTag{0x2c6f4b1d90ea4735, 0xb81d5e7a4f0c62d9};

    static Napi::FunctionReference define(Napi::Env env);

    using Wrapped::Wrapped;
    ~StreamHandle() override;

    /// Promise<StreamHandle>. Throws Error{kInvalidRequest} for an offline session, kSlotBusy for a
    /// slot in use.
    static Napi::Value start(Napi::Env env, const std::shared_ptr<PoolCore>& pool, std::size_t slot,
                             TaskOptions options);

  private:
    // push(samples) with a Float32Array, or push(audio, startSample, endSample) of an AudioHandle:
    // Promise<result | undefined>. One call at a time.
    Napi::Value push(const Napi::CallbackInfo& info);
    // finish(): Promise<result>. Ends the stream.
    Napi::Value finish(const Napi::CallbackInfo& info);
    // reset(): Promise<void>, at any time and any number of times; a running call is cancelled.
    Napi::Value reset(const Napi::CallbackInfo& info);
};

}  // namespace wavepool::binding
