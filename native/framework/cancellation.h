#pragma once

#include <atomic>
#include <memory>

namespace wavepool {

/// A flag that one side raises and running native code polls: between decode steps, and from ggml's
/// abort callback. Copies share the flag. A default token can never be raised. All methods may be
/// called from any thread.
class CancelToken {
  public:
    CancelToken() = default;

    [[nodiscard]] static CancelToken create() {
        return CancelToken(std::make_shared<std::atomic<bool>>(false));
    }

    void cancel() const noexcept {
        if (flag_) flag_->store(true, std::memory_order_release);
    }
    [[nodiscard]] bool cancelled() const noexcept {
        return flag_ && flag_->load(std::memory_order_acquire);
    }

  private:
    explicit CancelToken(std::shared_ptr<std::atomic<bool>> flag) : flag_(std::move(flag)) {}

    std::shared_ptr<std::atomic<bool>> flag_;
};

}  // namespace wavepool
