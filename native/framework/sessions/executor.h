#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace wavepool {

/// The thread of one slot, which runs one task at a time. Model code runs here: never on the
/// JavaScript thread, never on libuv's pool.
class SlotExecutor {
  public:
    SlotExecutor();
    /// Waits for the running task, then joins.
    ~SlotExecutor();
    SlotExecutor(const SlotExecutor&) = delete;
    SlotExecutor& operator=(const SlotExecutor&) = delete;

    /// Starts `task` on the executor's thread. Throws Error{kSlotBusy} while another task runs:
    /// admission belongs to the caller, this is the last line of defence. `finished` (may be empty)
    /// follows on the same thread once the executor is free again, so whoever hears of the end from
    /// it can start the next task at once. Neither may throw or destroy the executor.
    void start(std::function<void()> task, std::function<void()> finished = {});

    [[nodiscard]] bool busy() const;

  private:
    void loop();

    mutable std::mutex mutex_;
    std::condition_variable wake_;
    // Protected by mutex_.
    std::function<void()> task_;
    std::function<void()> finished_;
    bool running_ = false;
    bool closing_ = false;
    // Last: joined before the members above die.
    std::thread thread_;
};

}  // namespace wavepool
