#include "framework/compute/backend.h"

#include <mutex>
#include <string>

#include "framework/error.h"

namespace wavepool {
namespace {

/// How long an idle thread of the pool polls before it sleeps, from 0 to 100. With 50 the threads
/// stay awake between two graphs of one decode step and sleep between two batches.
constexpr int kThreadpoolPolling = 50;

int checked_threads(int threads) {
    if (threads < 1 || threads > CpuBackend::kMaxThreads) {
        throw Error(ErrorCode::kInvalidRequest, "a session has 1 to " +
                                                    std::to_string(CpuBackend::kMaxThreads) +
                                                    " threads, not " + std::to_string(threads));
    }
    return threads;
}

}  // namespace

void construct_backend(const std::function<void()>& construct) {
    static std::mutex guard;
    const std::scoped_lock lock(guard);
    construct();
}

CpuBackend::CpuBackend(int threads) : threads_(checked_threads(threads)) {
    ggml_threadpool_params params = ggml_threadpool_params_default(threads_);
    params.poll = kThreadpoolPolling;
    construct_backend([&] {
        threadpool_.reset(ggml_threadpool_new(&params));
        backend_.reset(ggml_backend_cpu_init());
        if (!threadpool_ || !backend_) {
            throw Error(ErrorCode::kInsufficientMemory, "creating a CPU backend");
        }
    });
    ggml_backend_cpu_set_n_threads(backend_.get(), threads_);
    ggml_backend_cpu_set_threadpool(backend_.get(), threadpool_.get());
}

void CpuBackend::compute(ggml_cgraph* graph, const AbortCheck& abort) {
    const auto poll = [](void* check) { return (*static_cast<const AbortCheck*>(check))(); };
    // ggml's callback takes a mutable pointer; polling does not change the check.
    if (abort)
        ggml_backend_cpu_set_abort_callback(backend_.get(), poll, const_cast<AbortCheck*>(&abort));
    const ggml_status status = ggml_backend_graph_compute(backend_.get(), graph);
    ggml_backend_cpu_set_abort_callback(backend_.get(), nullptr, nullptr);
    switch (status) {
        case GGML_STATUS_SUCCESS:
            return;
        case GGML_STATUS_ABORTED:
            throw Error(ErrorCode::kCancelled, "while computing");
        case GGML_STATUS_ALLOC_FAILED:
            throw Error(ErrorCode::kInsufficientMemory, "computing a graph");
        case GGML_STATUS_FAILED:
            break;
    }
    throw Error(ErrorCode::kInternal, "ggml could not compute a graph");
}

}  // namespace wavepool
