#include "binding/stream_handle.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "binding/audio_handle.h"
#include "binding/convert.h"
#include "binding/promise_task.h"
#include "framework/sessions/stream_run.h"

namespace wavepool::binding {
namespace {

using StreamPtr = std::shared_ptr<StreamCore>;

/// A call that the slot's executor runs. It is filled on the JS thread, then used by the executor's
/// thread.
struct Call {
    enum class Kind { kStart, kPush, kFinish, kReset };

    Kind kind;
    std::function<std::optional<TaskResult>(std::optional<StreamRun>& stream)> work;
    std::optional<TaskResult> result;
    std::optional<Error> failure;
    std::uint64_t id = 0;

    [[nodiscard]] bool ends_stream() const {
        return failure || kind == Kind::kFinish || kind == Kind::kReset;
    }
};

Napi::Promise resolved(Napi::Env env) {
    const auto deferred = Napi::Promise::Deferred::New(env);
    deferred.Resolve(env.Undefined());
    return deferred.Promise();
}

/// False once its sessions are gone, or will be without anything more being started.
bool is_alive(const StreamCore& core) {
    return !core.pool->closed && core.pool->slots[core.slot]->executor != nullptr;
}

/// Runs a call; called on the executor's thread.
void execute(PoolCore& pool, std::size_t index, Call& call) {
    PoolCore::Slot& slot = *pool.slots[index];
    try {
        call.result = call.work(slot.stream);
    } catch (...) {
        call.failure = error_from_current_exception();
    }
    if (call.ends_stream()) slot.stream.reset();
    slot.session_bytes = pool.sessions->at(index).private_bytes();
}

Napi::Promise dispatch(Napi::Env env, const StreamPtr& core, std::shared_ptr<Call> call);

Napi::Promise dispatch_reset(Napi::Env env, const StreamPtr& core) {
    auto call = std::make_shared<Call>(Call{.kind = Call::Kind::kReset});
    // The slot's stream is dropped after every call that ends it.
    call->work = [](std::optional<StreamRun>&) { return std::nullopt; };
    return dispatch(env, core, std::move(call));
}

Napi::Value value_of(Napi::Env env, const Call& call, const StreamPtr& core) {
    if (call.kind == Call::Kind::kStart) {
        return StreamHandle::wrap(env, Environment::of(env).stream_constructor, core);
    }
    return call.result ? to_js(env, *call.result) : env.Undefined();
}

/// Settles the promise of a call; called on the JS thread, once the executor is free again.
void settle(Napi::Env env, JsThread& js, const Call& call) {
    const PendingCall pending = js.take(call.id);
    const auto core = std::static_pointer_cast<StreamCore>(pending.keep_alive);
    PoolCore::Slot& slot = *core->pool->slots[core->slot];
    slot.running.clear();
    core->calling = false;
    if (call.ends_stream()) {
        core->open = false;
        slot.streaming = false;
    }
    if (call.failure) {
        pending.deferred.Reject(to_js_error(env, *call.failure));
    } else {
        pending.deferred.Resolve(value_of(env, call, core));
    }
    if (core->open && core->reset_asked && is_alive(*core)) {
        dispatch_reset(env, core);
        return;
    }
    for (const auto& waiting : std::exchange(core->waiting_resets, {})) {
        waiting.Resolve(env.Undefined());
    }
}

Napi::Promise dispatch(Napi::Env env, const StreamPtr& core, std::shared_ptr<Call> call) {
    const auto deferred = Napi::Promise::Deferred::New(env);
    call->id = core->js_thread->add({deferred, {}, core});
    core->calling = true;
    PoolCore& pool = *core->pool;
    PoolCore::Slot& slot = *pool.slots[core->slot];
    slot.running = {core->token};
    // The functions do not own the pool: the last owner ends the executor, which must not happen on
    // the executor's own thread.
    slot.executor->start(
        [&pool, index = core->slot, call] { execute(pool, index, *call); },
        [call, js_thread = core->js_thread] {
            js_thread->post([call](Napi::Env env, JsThread& js) { settle(env, js, *call); });
        });
    return deferred.Promise();
}

const StreamPtr& ready(const StreamPtr& core) {
    if (!core->open || core->reset_asked || !is_alive(*core)) {
        throw Error(ErrorCode::kInvalidRequest, "the stream has ended");
    }
    if (core->calling) {
        throw Error(ErrorCode::kInvalidRequest, "the stream takes one call at a time");
    }
    return core;
}

/// Copies what belongs to JavaScript; what lies in native memory is read by the executor.
std::function<std::vector<float>()> read_chunk(const Napi::CallbackInfo& info) {
    if (info[0].IsTypedArray()) {
        if (info[0].As<Napi::TypedArray>().TypedArrayType() != napi_float32_array) {
            throw Error(ErrorCode::kInvalidRequest, "samples must be a Float32Array");
        }
        const auto array = info[0].As<Napi::Float32Array>();
        std::vector<float> samples(array.Data(), array.Data() + array.ElementLength());
        return [samples = std::move(samples)] { return samples; };
    }
    const auto& audio = AudioHandle::unwrap(info[0], "samples or audio");
    if (!audio->store) throw Error(ErrorCode::kInvalidRequest, "the input is closed");
    AudioSegment segment{audio->store, read_integer(info[1], "startSample"), 0};
    segment.count = read_integer(info[2], "endSample") - segment.start;
    return [segment = std::move(segment)] { return segment.copy(); };
}

}  // namespace

Napi::FunctionReference StreamHandle::define(Napi::Env env) {
    return Napi::Persistent(DefineClass(env, "StreamHandle",
                                        {
                                            InstanceMethod<&StreamHandle::push>("push"),
                                            InstanceMethod<&StreamHandle::finish>("finish"),
                                            InstanceMethod<&StreamHandle::reset>("reset"),
                                        }));
}

Napi::Value StreamHandle::start(Napi::Env env, const std::shared_ptr<PoolCore>& pool,
                                std::size_t slot, TaskOptions options) {
    PoolCore::Slot& place = *pool->slots[slot];
    // The kind of a session never changes, whatever runs in it.
    static_cast<void>(require_streaming(pool->sessions->at(slot)));
    if (place.streaming || place.executor->busy()) {
        throw Error(ErrorCode::kSlotBusy, "slot " + std::to_string(slot));
    }
    auto core = std::make_shared<StreamCore>();
    core->pool = pool;
    core->slot = slot;
    core->js_thread = Environment::of(env).js_thread();
    auto call = std::make_shared<Call>(Call{.kind = Call::Kind::kStart});
    TaskRequest request;
    request.options = std::move(options);
    request.cancel = core->token;
    call->work = [&session = pool->sessions->at(slot),
                  request = std::move(request)](std::optional<StreamRun>& stream) {
        stream.emplace(session, request);
        return std::nullopt;
    };
    const Napi::Promise started = dispatch(env, core, std::move(call));
    core->open = true;
    place.streaming = true;
    return started;
}

StreamHandle::~StreamHandle() {
    const StreamPtr& stream = core();
    if (!stream || !stream->open || stream->reset_asked) return;
    stream->token.cancel();
    stream->reset_asked = true;
    if (!stream->calling && is_alive(*stream)) dispatch_reset(Env(), stream);
}

Napi::Value StreamHandle::push(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&]() -> Napi::Value {
        auto call = std::make_shared<Call>(Call{.kind = Call::Kind::kPush});
        call->work = [chunk = read_chunk(info)](std::optional<StreamRun>& stream) {
            return stream.value().push(chunk());
        };
        return dispatch(info.Env(), ready(core()), std::move(call));
    });
}

Napi::Value StreamHandle::finish(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&]() -> Napi::Value {
        auto call = std::make_shared<Call>(Call{.kind = Call::Kind::kFinish});
        call->work = [](std::optional<StreamRun>& stream) { return stream.value().finish(); };
        return dispatch(info.Env(), ready(core()), std::move(call));
    });
}

Napi::Value StreamHandle::reset(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&]() -> Napi::Value {
        const Napi::Env env = info.Env();
        const StreamPtr& stream = core();
        if (!stream->open || !is_alive(*stream)) return resolved(env);
        stream->token.cancel();
        const bool first = !std::exchange(stream->reset_asked, true);
        if (first && !stream->calling) return dispatch_reset(env, stream);
        stream->waiting_resets.push_back(Napi::Promise::Deferred::New(env));
        return stream->waiting_resets.back().Promise();
    });
}

}  // namespace wavepool::binding
