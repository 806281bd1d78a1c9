#pragma once

#include <napi.h>

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "binding/js_thread.h"
#include "framework/worker_threads.h"

namespace wavepool::binding {

/// Something that runs work on threads of its own and ends with its environment.
class NativeWork {
  public:
    virtual ~NativeWork() = default;

    /// Asks running work to end. Called on the JS thread.
    virtual void cancel() noexcept = 0;
    /// Waits for running work and ends the threads. Called on the JS thread, after cancel(), when
    /// nothing is started any more.
    virtual void join() noexcept = 0;
};

/// The native state of one JavaScript environment (the main thread, or one worker_thread): its
/// constructors, its threads, and the queue of messages to its JS thread. Used on the JS thread
/// only.
///
/// When the environment closes with work running, everything is cancelled and waited for: its
/// threads execute code that Node may unload next.
class Environment {
  public:
    explicit Environment(Napi::Env env);
    Environment(const Environment&) = delete;
    Environment& operator=(const Environment&) = delete;

    /// Creates the environment's state; it is freed with the environment.
    static void attach(Napi::Env env);
    [[nodiscard]] static Environment& of(Napi::Env env);

    [[nodiscard]] const std::shared_ptr<JsThread>& js_thread() const { return js_thread_; }

    /// Runs a job that may take long on a thread of its own. The job must not throw.
    void spawn(std::function<void()> job);

    /// The threads that all files share for decoding; started on first use.
    [[nodiscard]] WorkerThreads& decode_threads();

    /// Makes `work` end with the environment, if it lives that long.
    void track(const std::shared_ptr<NativeWork>& work);

    Napi::FunctionReference audio_constructor;
    Napi::FunctionReference model_constructor;
    Napi::FunctionReference pool_constructor;
    Napi::FunctionReference state_constructor;
    Napi::FunctionReference stream_constructor;

  private:
    struct Background;

    void shut_down() noexcept;

    std::shared_ptr<JsThread> js_thread_;
    std::list<std::shared_ptr<Background>> background_;
    std::optional<WorkerThreads> decode_threads_;
    std::vector<std::weak_ptr<NativeWork>> tracked_;
};

}  // namespace wavepool::binding
