#include "binding/pool_handle.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "binding/audio_handle.h"
#include "binding/convert.h"
#include "binding/promise_task.h"
#include "binding/state_handle.h"
#include "binding/stream_handle.h"
#include "framework/sessions/batch_run.h"

namespace wavepool::binding {
namespace {

/// A batch that an executor runs. It is filled on the JS thread, then used by the executor's
/// thread.
struct Batch {
    std::vector<TaskRequest> requests;
    std::vector<std::shared_ptr<StateCore>> states;  ///< by item; null without state
    std::optional<Error> failure;
    std::uint64_t call_id = 0;
};

Napi::Value count(Napi::Env env, std::size_t value) {
    return Napi::Number::New(env, static_cast<double>(value));
}

TaskRequest read_item(Napi::Value value, std::shared_ptr<StateCore>& state) {
    const Napi::Object item = read_object(value, "an item");
    const auto& audio = AudioHandle::unwrap(item.Get("audio"), "audio");
    if (!audio->store) throw Error(ErrorCode::kInvalidRequest, "the input is closed");
    TaskRequest request;
    request.audio.store = audio->store;
    request.audio.start = read_integer(item.Get("startSample"), "startSample");
    request.audio.count = read_integer(item.Get("endSample"), "endSample") - request.audio.start;
    request.options = read_task_options(item.Get("options"));
    request.cancel = CancelToken::create();
    if (const Napi::Value given = item.Get("state"); !given.IsUndefined()) {
        state = StateHandle::unwrap(given, "state");
        request.state = state->state;
    }
    return request;
}

void release_states(const Batch& batch) {
    for (const auto& state : batch.states) {
        if (state) state->in_use = false;
    }
}

void claim_states(const Batch& batch) {
    for (std::size_t i = 0; i < batch.states.size(); ++i) {
        const auto& state = batch.states[i];
        if (!state) continue;
        if (state->in_use) {
            for (std::size_t claimed = 0; claimed < i; ++claimed) {
                if (batch.states[claimed]) batch.states[claimed]->in_use = false;
            }
            throw Error(ErrorCode::kInvalidRequest, "another request is using this state");
        }
        state->in_use = true;
    }
}

std::shared_ptr<Batch> read_batch(Napi::Value value) {
    if (!value.IsArray()) throw Error(ErrorCode::kInvalidRequest, "items must be an array");
    const auto items = value.As<Napi::Array>();
    if (items.Length() == 0) throw Error(ErrorCode::kInvalidRequest, "a batch needs an item");
    auto batch = std::make_shared<Batch>();
    for (std::uint32_t i = 0; i < items.Length(); ++i) {
        batch->requests.push_back(read_item(items.Get(i), batch->states.emplace_back()));
    }
    return batch;
}

/// Runs a batch; called on the executor's thread.
void execute(PoolCore& pool, std::size_t slot, Batch& batch,
             const std::shared_ptr<JsThread>& js_thread) {
    IVoiceTaskSession& session = pool.sessions->at(slot);
    const auto report = [&](std::size_t index, TaskOutcome outcome) {
        js_thread->post([index, outcome = std::move(outcome), id = batch.call_id,
                         state = batch.states[index]](Napi::Env env, JsThread& js) {
            if (state) state->in_use = false;
            js.at(id).listener.Call({count(env, index), to_js(env, outcome)});
        });
    };
    try {
        run_items(session, batch.requests, report);
    } catch (...) {
        batch.failure = error_from_current_exception();
    }
    pool.slots[slot]->session_bytes = session.private_bytes();
}

/// Settles the promise of a batch; called on the JS thread, once the executor is free again.
void settle(Napi::Env env, JsThread& js, std::size_t slot, const Batch& batch) {
    const PendingCall call = js.take(batch.call_id);
    static_cast<PoolCore*>(call.keep_alive.get())->slots[slot]->running.clear();
    if (batch.failure) {
        release_states(batch);
        call.deferred.Reject(to_js_error(env, *batch.failure));
    } else {
        call.deferred.Resolve(env.Undefined());
    }
}

Napi::Value start(Napi::Env env, const std::shared_ptr<PoolCore>& core, std::size_t slot,
                  const std::shared_ptr<Batch>& batch, Napi::Function listener) {
    const auto& js_thread = Environment::of(env).js_thread();
    std::vector<CancelToken> tokens;
    for (const TaskRequest& request : batch->requests) tokens.push_back(request.cancel);

    auto deferred = Napi::Promise::Deferred::New(env);
    batch->call_id = js_thread->add({deferred, Napi::Persistent(listener), core});
    PoolCore& pool = *core;
    pool.slots[slot]->running = tokens;
    pool.slots[slot]->executor->start(
        [&pool, slot, batch, js_thread] { execute(pool, slot, *batch, js_thread); },
        [slot, batch, js_thread] {
            js_thread->post(
                [slot, batch](Napi::Env env, JsThread& js) { settle(env, js, slot, *batch); });
        });

    const auto cancel = [tokens](const Napi::CallbackInfo& info) {
        return guarded(info.Env(), [&] {
            const std::int64_t index = read_integer(info[0], "index");
            if (index < 0 || index >= static_cast<std::int64_t>(tokens.size())) {
                throw Error(ErrorCode::kInvalidRequest, "no item " + std::to_string(index));
            }
            tokens[static_cast<std::size_t>(index)].cancel();
            return info.Env().Undefined();
        });
    };
    Napi::Object run = Napi::Object::New(env);
    run.Set("done", deferred.Promise());
    run.Set("cancel", Napi::Function::New(env, cancel, "cancel"));
    return run;
}

}  // namespace

PoolCore::PoolCore(std::unique_ptr<IVoiceTaskSession> primary, std::size_t count) {
    sessions.emplace(std::move(primary), count);
    capacity = sessions->capacity();
    if (const auto* batched = sessions->get<IBatchedOfflineVoiceTaskSession>(0)) {
        max_batch = batched->max_batch();
    }
    for (std::size_t i = 0; i < sessions->size(); ++i) {
        slots.push_back(std::make_unique<Slot>());
        slots.back()->session_bytes = sessions->at(i).private_bytes();
    }
}

void PoolCore::cancel() noexcept {
    for (const auto& slot : slots) {
        for (const CancelToken& token : slot->running) token.cancel();
    }
}

void PoolCore::join() noexcept {
    for (const auto& slot : slots) slot->executor.reset();
}

void PoolCore::destroy() noexcept {
    join();
    for (const auto& slot : slots) slot->stream.reset();
    sessions.reset();
}

Napi::FunctionReference PoolHandle::define(Napi::Env env) {
    return Napi::Persistent(
        DefineClass(env, "PoolHandle",
                    {
                        InstanceMethod<&PoolHandle::run>("run"),
                        InstanceMethod<&PoolHandle::start_stream>("startStream"),
                        InstanceMethod<&PoolHandle::close>("close"),
                        InstanceAccessor<&PoolHandle::size>("size"),
                        InstanceAccessor<&PoolHandle::capacity>("capacity"),
                        InstanceAccessor<&PoolHandle::max_batch>("maxBatch"),
                        InstanceAccessor<&PoolHandle::session_bytes>("sessionBytes"),
                    }));
}

std::size_t PoolHandle::read_slot(Napi::Value value) const {
    if (core()->closed) throw Error(ErrorCode::kInvalidRequest, "the pool is closed");
    const std::int64_t slot = read_integer(value, "slot");
    if (slot < 0 || slot >= static_cast<std::int64_t>(core()->slots.size())) {
        throw Error(ErrorCode::kInvalidRequest, "no slot " + std::to_string(slot));
    }
    return static_cast<std::size_t>(slot);
}

Napi::Value PoolHandle::run(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] {
        const std::size_t slot = read_slot(info[0]);
        if (!info[2].IsFunction()) {
            throw Error(ErrorCode::kInvalidRequest, "onOutcome must be a function");
        }
        // Only this thread starts work, so a slot that is free here is still free below.
        if (core()->slots[slot]->streaming || core()->slots[slot]->executor->busy()) {
            throw Error(ErrorCode::kSlotBusy, "slot " + std::to_string(slot));
        }
        const auto batch = read_batch(info[1]);
        claim_states(*batch);
        return start(info.Env(), core(), slot, batch, info[2].As<Napi::Function>());
    });
}

Napi::Value PoolHandle::start_stream(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] {
        const std::size_t slot = read_slot(info[0]);
        return StreamHandle::start(info.Env(), core(), slot, read_task_options(info[1]));
    });
}

Napi::Value PoolHandle::close(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&]() -> Napi::Value {
        if (core()->closed) throw Error(ErrorCode::kInvalidRequest, "the pool is closed");
        Environment& environment = Environment::of(info.Env());
        auto task = make_promise_task<std::monostate, PoolCore>(
            info.Env(), environment.js_thread(), core(),
            [](PoolCore& pool) {
                pool.destroy();
                return std::monostate{};
            },
            [](Napi::Env env, const std::monostate&, const std::shared_ptr<PoolCore>&) {
                return env.Undefined();
            });
        const Napi::Promise closing =
            std::move(task).start([&](auto job) { environment.spawn(std::move(job)); });
        core()->closed = true;
        return closing;
    });
}

Napi::Value PoolHandle::size(const Napi::CallbackInfo& info) {
    return count(info.Env(), core()->slots.size());
}

Napi::Value PoolHandle::capacity(const Napi::CallbackInfo& info) {
    return count(info.Env(), core()->capacity);
}

Napi::Value PoolHandle::max_batch(const Napi::CallbackInfo& info) {
    return count(info.Env(), core()->max_batch);
}

Napi::Value PoolHandle::session_bytes(const Napi::CallbackInfo& info) {
    Napi::Array bytes = Napi::Array::New(info.Env(), core()->slots.size());
    for (std::uint32_t i = 0; i < bytes.Length(); ++i) {
        bytes.Set(i, count(info.Env(), core()->slots[i]->session_bytes));
    }
    return bytes;
}

}  // namespace wavepool::binding
