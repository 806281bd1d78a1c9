#pragma once

#include <napi.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace wavepool::binding {

/// A promise that JavaScript waits for while native work runs. It lives on the JS thread only, so
/// that no other thread ever holds or destroys a JavaScript value.
struct PendingCall {
    Napi::Promise::Deferred deferred;
    Napi::FunctionReference listener;  ///< empty unless the call reports progress
    std::shared_ptr<void> keep_alive;  ///< what must not die on the thread that runs the work
};

/// A queue of messages to the JS thread, one per environment: any thread posts messages, which run
/// on the JS thread in the order of posting. It keeps the event loop alive while calls are pending,
/// and only then.
class JsThread {
  public:
    using Message = std::function<void(Napi::Env, JsThread&)>;

    explicit JsThread(Napi::Env env);
    JsThread(const JsThread&) = delete;
    JsThread& operator=(const JsThread&) = delete;

    /// Callable from any thread. After close() the message is dropped on the calling thread; it
    /// must therefore hold no JavaScript values.
    void post(Message message);

    // The following methods are called on the JS thread only.

    [[nodiscard]] std::uint64_t add(PendingCall call);
    /// Removes and returns a call that was added and not yet taken.
    [[nodiscard]] PendingCall take(std::uint64_t id);
    [[nodiscard]] const PendingCall& at(std::uint64_t id) const { return pending_.at(id); }

    /// No message runs any more; pending calls are forgotten, with what they kept alive. Part of
    /// the environment's cleanup.
    void close();

  private:
    static void on_wake(napi_env env, napi_value callback, void* context, void* data);
    void deliver(Napi::Env env);

    // Constant after construction. Never called after close(): Node frees it with the environment,
    // whoever still holds it.
    napi_env env_;
    napi_threadsafe_function wake_ = nullptr;

    std::mutex mutex_;
    // Protected by mutex_.
    std::deque<Message> inbox_;
    bool open_ = true;

    // JS thread only.
    std::map<std::uint64_t, PendingCall> pending_;
    std::uint64_t next_id_ = 0;
};

}  // namespace wavepool::binding
