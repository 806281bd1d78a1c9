#include "binding/js_thread.h"

#include <utility>

#include "binding/promise_task.h"

namespace wavepool::binding {

JsThread::JsThread(Napi::Env env) : env_(env) {
    const napi_status status =
        napi_create_threadsafe_function(env, nullptr, nullptr, Napi::String::New(env, "wavepool"),
                                        0, 1, nullptr, nullptr, this, &JsThread::on_wake, &wake_);
    if (status != napi_ok || napi_unref_threadsafe_function(env, wake_) != napi_ok) {
        throw Error(ErrorCode::kInternal, "this environment refuses a thread-safe function");
    }
}

void JsThread::post(Message message) {
    const std::scoped_lock lock(mutex_);
    if (!open_) return;
    inbox_.push_back(std::move(message));
    // One wake-up delivers the whole inbox, so only its first message needs one.
    if (inbox_.size() == 1) {
        napi_call_threadsafe_function(wake_, nullptr, napi_tsfn_nonblocking);
    }
}

std::uint64_t JsThread::add(PendingCall call) {
    const std::uint64_t id = next_id_++;
    pending_.emplace(id, std::move(call));
    if (pending_.size() == 1) napi_ref_threadsafe_function(env_, wake_);
    return id;
}

PendingCall JsThread::take(std::uint64_t id) {
    auto node = pending_.extract(id);
    if (node.empty()) throw Error(ErrorCode::kInternal, "a native call ended twice");
    if (pending_.empty()) napi_unref_threadsafe_function(env_, wake_);
    return std::move(node.mapped());
}

void JsThread::close() {
    std::deque<Message> dropped;
    {
        const std::scoped_lock lock(mutex_);
        open_ = false;
        dropped.swap(inbox_);
    }
    pending_.clear();
}

void JsThread::on_wake(napi_env env, napi_value, void* context, void*) {
    // Node calls without an environment while it frees its queue; the context may be gone then.
    if (env != nullptr) static_cast<JsThread*>(context)->deliver(env);
}

void JsThread::deliver(Napi::Env env) {
    std::deque<Message> messages;
    {
        const std::scoped_lock lock(mutex_);
        messages.swap(inbox_);
    }
    for (const Message& message : messages) {
        const Napi::HandleScope scope(env);
        guarded(env, [&] {
            message(env, *this);
            return env.Undefined();
        });
        // A throwing listener is a bug of the caller: it surfaces, and the other messages arrive.
        if (env.IsExceptionPending()) {
            napi_fatal_exception(env, env.GetAndClearPendingException().Value());
        }
    }
}

}  // namespace wavepool::binding
