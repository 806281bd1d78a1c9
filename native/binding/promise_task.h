#pragma once

#include <napi.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "binding/js_thread.h"
#include "framework/error.h"

namespace wavepool::binding {

/// A JavaScript Error whose `code` is the name in the error table and whose message is the detail.
[[nodiscard]] inline Napi::Value to_js_error(Napi::Env env, const Error& error) {
    const Napi::Error js_error = Napi::Error::New(env, error.what());
    const auto code = error_code_name(error.code());
    js_error.Value().Set("code", Napi::String::New(env, code.data(), code.size()));
    return js_error.Value();
}

/// The boundary: every function that JavaScript calls runs its body in here. What it throws becomes
/// a JavaScript exception with a code.
template <typename Body>
Napi::Value guarded(Napi::Env env, Body&& body) {
    try {
        return body();
    } catch (...) {
        napi_throw(env, to_js_error(env, error_from_current_exception()));
        return env.Undefined();
    }
}

/// A promise and the job that settles it. The job runs once, on any thread.
struct PromiseTask {
    Napi::Promise promise;
    std::function<void()> job;
    std::function<void()> abandon;  ///< instead of running the job; the promise stays pending

    /// Gives the job to `dispatch`, which may fail for want of a thread.
    template <typename Dispatch>
    Napi::Promise start(Dispatch&& dispatch) && {
        try {
            dispatch(std::move(job));
        } catch (...) {
            abandon();
            throw;
        }
        return promise;
    }
};

/// `work` runs on the thread that runs the job, `convert` on the JS thread; neither may hold
/// JavaScript values. What either throws rejects the promise. `owner` is what the work uses: it
/// lives until the call has settled and is released on the JS thread, never on the job's, which it
/// may own. `on_settled` (may be empty) runs on the JS thread before either outcome.
template <typename Result, typename Owner>
[[nodiscard]] PromiseTask make_promise_task(
    Napi::Env env, const std::shared_ptr<JsThread>& js_thread, std::shared_ptr<Owner> owner,
    std::function<Result(Owner&)> work,
    std::function<Napi::Value(Napi::Env, const Result&, const std::shared_ptr<Owner>&)> convert,
    std::function<void(const std::shared_ptr<Owner>&)> on_settled = {}) {
    auto deferred = Napi::Promise::Deferred::New(env);
    const Napi::Promise promise = deferred.Promise();
    Owner& borrowed = *owner;
    const std::uint64_t id = js_thread->add({deferred, {}, std::move(owner)});

    using Outcome = std::variant<Result, Error>;
    auto settle = [convert = std::move(convert), on_settled = std::move(on_settled), id](
                      Napi::Env env, JsThread& js, const Outcome& outcome) {
        const PendingCall call = js.take(id);
        const auto owner = std::static_pointer_cast<Owner>(call.keep_alive);
        if (on_settled) on_settled(owner);
        std::optional<Error> error;
        Napi::Value value;
        try {
            if (const auto* failed = std::get_if<Error>(&outcome)) throw *failed;
            value = convert(env, std::get<Result>(outcome), owner);
        } catch (...) {
            error = error_from_current_exception();
        }
        if (error) {
            call.deferred.Reject(to_js_error(env, *error));
        } else if (env.IsExceptionPending()) {
            call.deferred.Reject(env.GetAndClearPendingException().Value());
        } else {
            call.deferred.Resolve(value);
        }
    };

    auto job = [js_thread, &borrowed, work = std::move(work), settle = std::move(settle)] {
        Outcome outcome = [&]() -> Outcome {
            try {
                return work(borrowed);
            } catch (...) {
                return error_from_current_exception();
            }
        }();
        js_thread->post([settle, outcome = std::move(outcome)](Napi::Env env, JsThread& js) {
            settle(env, js, outcome);
        });
    };
    return {promise, std::move(job), [js_thread, id] { (void)js_thread->take(id); }};
}

}  // namespace wavepool::binding
