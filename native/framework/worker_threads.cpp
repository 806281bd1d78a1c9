#include "framework/worker_threads.h"

#include <utility>

namespace wavepool {

WorkerThreads::WorkerThreads(std::size_t count) {
    threads_.reserve(count);
    while (threads_.size() < count) threads_.emplace_back([this] { loop(); });
}

WorkerThreads::~WorkerThreads() {
    {
        const std::scoped_lock lock(mutex_);
        closing_ = true;
        jobs_.clear();
    }
    wake_.notify_all();
}

void WorkerThreads::post(std::function<void()> job) {
    {
        const std::scoped_lock lock(mutex_);
        if (closing_) return;
        jobs_.push_back(std::move(job));
    }
    wake_.notify_one();
}

void WorkerThreads::loop() {
    while (true) {
        std::function<void()> job;
        {
            std::unique_lock lock(mutex_);
            wake_.wait(lock, [this] { return closing_ || !jobs_.empty(); });
            if (jobs_.empty()) return;
            job = std::move(jobs_.front());
            jobs_.pop_front();
        }
        job();
    }
}

}  // namespace wavepool
