#pragma once

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>

#include <functional>
#include <memory>

#include "framework/cancellation.h"

namespace wavepool {

struct BackendDeleter {
    void operator()(ggml_backend_t backend) const noexcept { ggml_backend_free(backend); }
};
struct BufferDeleter {
    void operator()(ggml_backend_buffer_t buffer) const noexcept {
        ggml_backend_buffer_free(buffer);
    }
};
struct ContextDeleter {
    void operator()(ggml_context* context) const noexcept { ggml_free(context); }
};
struct ThreadpoolDeleter {
    void operator()(ggml_threadpool_t pool) const noexcept { ggml_threadpool_free(pool); }
};
struct GraphAllocatorDeleter {
    void operator()(ggml_gallocr_t allocator) const noexcept { ggml_gallocr_free(allocator); }
};

using BackendPtr = std::unique_ptr<ggml_backend, BackendDeleter>;
using BufferPtr = std::unique_ptr<ggml_backend_buffer, BufferDeleter>;
using ContextPtr = std::unique_ptr<ggml_context, ContextDeleter>;
using ThreadpoolPtr = std::unique_ptr<ggml_threadpool, ThreadpoolDeleter>;
using GraphAllocatorPtr = std::unique_ptr<ggml_gallocr, GraphAllocatorDeleter>;

/// Whether memory is allocated or only its size computed, with tensors that must not be used.
enum class Allocation { kReal, kPlanned };

/// Runs `construct`, one caller of the process at a time: backends may publish devices before these
/// are initialized. Whatever creates a backend or chooses among devices goes through here, in CPU
/// builds CpuBackend alone. What `construct` throws passes through and lets the next caller in.
/// Uploading, computing and destroying are not serialized.
void construct_backend(const std::function<void()>& construct);

/// Says whether to stop computing: a batch's, whether *every* member is cancelled. Polled from the
/// middle of a computation; must not throw.
using AbortCheck = std::function<bool()>;

/// A CPU backend with a persistent threadpool of its own, for one session.
class CpuBackend {
  public:
    static constexpr int kMaxThreads = 64;

    /// Throws Error{kInvalidRequest} unless `threads` is 1…kMaxThreads, Error{kInsufficientMemory}
    /// when ggml cannot allocate.
    explicit CpuBackend(int threads);

    [[nodiscard]] ggml_backend_t get() const noexcept { return backend_.get(); }
    [[nodiscard]] int threads() const noexcept { return threads_; }

    /// Computes `graph`. `abort`, if not empty, is polled after each node of the graph. Throws
    /// Error{kCancelled} when aborted, Error{kInsufficientMemory | kInternal} when ggml fails. The
    /// backend stays usable after each of them.
    void compute(ggml_cgraph* graph, const AbortCheck& abort = {});

  private:
    int threads_;
    // Destruction order: the backend dies before the threadpool it uses.
    ThreadpoolPtr threadpool_;
    BackendPtr backend_;
};

}  // namespace wavepool
