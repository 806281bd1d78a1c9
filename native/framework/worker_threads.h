#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace wavepool {

/// A few threads that take jobs in the order of arrival. For work that never waits for anything but
/// the disk: a job that blocks holds a thread from the others.
class WorkerThreads {
  public:
    explicit WorkerThreads(std::size_t count);
    /// Drops the jobs that have not started, waits for those that run.
    ~WorkerThreads();
    WorkerThreads(const WorkerThreads&) = delete;
    WorkerThreads& operator=(const WorkerThreads&) = delete;

    /// Queues a job; callable from any thread. `job` must not throw.
    void post(std::function<void()> job);

  private:
    void loop();

    std::mutex mutex_;
    std::condition_variable wake_;
    // Protected by mutex_.
    std::deque<std::function<void()>> jobs_;
    bool closing_ = false;
    // Last: joined before the members above die.
    std::vector<std::jthread> threads_;
};

}  // namespace wavepool
