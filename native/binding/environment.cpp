#include "binding/environment.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace wavepool::binding {
namespace {

constexpr unsigned kMaxDecodeThreads = 2;

}  // namespace

struct Environment::Background {
    std::atomic<bool> done = false;
    std::jthread thread;
};

Environment::Environment(Napi::Env env) : js_thread_(std::make_shared<JsThread>(env)) {}

void Environment::attach(Napi::Env env) {
    auto environment = std::make_unique<Environment>(env);
    // Hooks run in reverse order: this one before Node frees the thread-safe function made above.
    env.AddCleanupHook([](Environment* closing) { closing->shut_down(); }, environment.get());
    env.SetInstanceData(environment.release());
}

Environment& Environment::of(Napi::Env env) { return *env.GetInstanceData<Environment>(); }

void Environment::spawn(std::function<void()> job) {
    std::erase_if(background_, [](const auto& entry) { return entry->done.load(); });
    auto entry = std::make_shared<Background>();
    // The thread borrows its entry: joining it is what destroying the entry does.
    entry->thread = std::jthread([job = std::move(job), &done = entry->done]() mutable {
        job();
        job = nullptr;
        done.store(true);
    });
    background_.push_back(std::move(entry));
}

WorkerThreads& Environment::decode_threads() {
    if (!decode_threads_) {
        decode_threads_.emplace(
            std::clamp(std::thread::hardware_concurrency(), 1U, kMaxDecodeThreads));
    }
    return *decode_threads_;
}

void Environment::track(const std::shared_ptr<NativeWork>& work) {
    std::erase_if(tracked_, [](const auto& entry) { return entry.expired(); });
    tracked_.push_back(work);
}

void Environment::shut_down() noexcept {
    std::vector<std::shared_ptr<NativeWork>> alive;
    for (const auto& entry : tracked_) {
        if (auto work = entry.lock()) alive.push_back(std::move(work));
    }
    for (const auto& work : alive) work->cancel();
    decode_threads_.reset();
    background_.clear();
    for (const auto& work : alive) work->join();
    js_thread_->close();
}

}  // namespace wavepool::binding
