#include "framework/sessions/executor.h"

#include <utility>

#include "framework/error.h"

namespace wavepool {

SlotExecutor::SlotExecutor() : thread_([this] { loop(); }) {}

SlotExecutor::~SlotExecutor() {
    {
        const std::scoped_lock lock(mutex_);
        closing_ = true;
    }
    wake_.notify_one();
    thread_.join();
}

void SlotExecutor::start(std::function<void()> task, std::function<void()> finished) {
    {
        const std::scoped_lock lock(mutex_);
        if (running_) throw Error(ErrorCode::kSlotBusy, "it runs one batch at a time");
        task_ = std::move(task);
        finished_ = std::move(finished);
        running_ = true;
    }
    wake_.notify_one();
}

bool SlotExecutor::busy() const {
    const std::scoped_lock lock(mutex_);
    return running_;
}

void SlotExecutor::loop() {
    std::unique_lock lock(mutex_);
    while (true) {
        wake_.wait(lock, [this] { return task_ || closing_; });
        if (!task_) return;
        auto task = std::exchange(task_, nullptr);
        auto finished = std::exchange(finished_, nullptr);
        lock.unlock();
        task();
        // The task releases what it holds before anybody is told that it has ended.
        task = nullptr;
        lock.lock();
        running_ = false;
        lock.unlock();
        if (finished) finished();
        finished = nullptr;
        lock.lock();
    }
}

}  // namespace wavepool
