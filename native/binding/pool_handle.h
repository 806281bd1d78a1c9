#pragma once

#include <napi.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "binding/environment.h"
#include "binding/wrapped.h"
#include "framework/sessions/executor.h"
#include "framework/sessions/session_pool.h"
#include "framework/sessions/stream_run.h"

namespace wavepool::binding {

/// Sessions and one executor for each.
struct PoolCore final : NativeWork {
    PoolCore(std::unique_ptr<IVoiceTaskSession> primary, std::size_t count);

    void cancel() noexcept override;
    void join() noexcept override;
    /// Waits for running work, then destroys the sessions. On any thread, when nothing is started
    /// any more.
    void destroy() noexcept;

    struct Slot {
        std::atomic<std::size_t> session_bytes = 0;
        std::vector<CancelToken> running;  ///< JS thread only
        bool streaming = false;            ///< JS thread only: the slot belongs to a stream
        std::optional<StreamRun> stream;   ///< executor's thread only
        std::unique_ptr<SlotExecutor> executor = std::make_unique<SlotExecutor>();
    };

    // Constant after construction, until destroy(). Destruction order: executors before sessions.
    std::optional<VoiceTaskSessionPool> sessions;
    std::vector<std::unique_ptr<Slot>> slots;
    std::size_t capacity = 1;
    std::size_t max_batch = 1;

    bool closed = false;  ///< JS thread only
};

class PoolHandle : public Wrapped<PoolHandle, PoolCore> {
  public:
    static constexpr napi_type_tag kTypeTag{0x7ad90e3bb8624f15, 0xa2c64f17e08b9d70};

    static Napi::FunctionReference define(Napi::Env env);

    using Wrapped::Wrapped;

  private:
    /// The slot that a call names, in a pool that is open. Throws Error{kInvalidRequest}.
    [[nodiscard]] std::size_t read_slot(Napi::Value value) const;

    // run(slot, items, onOutcome): { done: Promise<void>, cancel(index) }. onOutcome(index,
    // outcome) is called once per item before `done` resolves; it must not throw.
    Napi::Value run(const Napi::CallbackInfo& info);
    // startStream(slot, options): Promise<StreamHandle>. The slot is the stream's until that ends.
    Napi::Value start_stream(const Napi::CallbackInfo& info);
    // close(): Promise<void>, once.
    Napi::Value close(const Napi::CallbackInfo& info);

    Napi::Value size(const Napi::CallbackInfo& info);
    Napi::Value capacity(const Napi::CallbackInfo& info);
    Napi::Value max_batch(const Napi::CallbackInfo& info);
    Napi::Value session_bytes(const Napi::CallbackInfo& info);
};

}  // namespace wavepool::binding
