#include "framework/compute/backend.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "framework/error.h"
#include "tests/support/error_code.h"
#include "tests/support/gguf_builder.h"

namespace wavepool {
namespace {

using testing::code_thrown_by;

/// x ← W·x, `steps` times, over buffers of its own.
class Graph {
  public:
    static constexpr std::int64_t kSize = 64;

    Graph(const CpuBackend& backend, int steps)
        : context_(ggml_init({ggml_tensor_overhead() * (static_cast<std::size_t>(steps) + 8) +
                                  ggml_graph_overhead_custom(kNodes, false),
                              nullptr, true})),
          allocator_(ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend.get()))) {
        weights_ = ggml_new_tensor_2d(context_.get(), GGML_TYPE_F32, kSize, kSize);
        input_ = ggml_new_tensor_1d(context_.get(), GGML_TYPE_F32, kSize);
        ggml_set_input(weights_);
        ggml_set_input(input_);
        output_ = input_;
        for (int i = 0; i < steps; ++i) output_ = ggml_mul_mat(context_.get(), weights_, output_);
        ggml_set_output(output_);
        graph_ = ggml_new_graph_custom(context_.get(), kNodes, false);
        ggml_build_forward_expand(graph_, output_);
        EXPECT_TRUE(ggml_gallocr_alloc_graph(allocator_.get(), graph_));
    }

    std::vector<float> compute(CpuBackend& backend, const AbortCheck& abort = {}) {
        std::vector<float> identity(kSize * kSize, 0);
        for (std::int64_t i = 0; i < kSize; ++i) identity[i * kSize + (i + 1) % kSize] = 1;
        std::vector<float> ramp(kSize);
        for (std::int64_t i = 0; i < kSize; ++i) ramp[i] = static_cast<float>(i);
        ggml_backend_tensor_set(weights_, identity.data(), 0, ggml_nbytes(weights_));
        ggml_backend_tensor_set(input_, ramp.data(), 0, ggml_nbytes(input_));
        backend.compute(graph_, abort);
        std::vector<float> result(kSize);
        ggml_backend_tensor_get(output_, result.data(), 0, ggml_nbytes(output_));
        return result;
    }

    /// W rotates by one, so the result of n steps is known.
    static std::vector<float> expected(int steps) {
        std::vector<float> result(kSize);
        for (std::int64_t i = 0; i < kSize; ++i) {
            result[i] = static_cast<float>((i + steps) % kSize);
        }
        return result;
    }

  private:
    static constexpr std::size_t kNodes = 256;

    ContextPtr context_;
    GraphAllocatorPtr allocator_;
    ggml_tensor* weights_ = nullptr;
    ggml_tensor* input_ = nullptr;
    ggml_tensor* output_ = nullptr;
    ggml_cgraph* graph_ = nullptr;
};

TEST(CpuBackend, RefusesThreadCountsThatNoSessionHas) {
    EXPECT_EQ(code_thrown_by([] { const CpuBackend backend(0); }), "INVALID_REQUEST");
    EXPECT_EQ(code_thrown_by([] { const CpuBackend backend(65); }), "INVALID_REQUEST");
    EXPECT_EQ(CpuBackend(1).threads(), 1);
}

TEST(CpuBackend, ComputesTheSameWithAnyThreadCount) {
    for (const int threads : {1, 2, 3}) {
        CpuBackend backend(threads);
        Graph graph(backend, 5);
        EXPECT_EQ(graph.compute(backend), Graph::expected(5));
    }
}

TEST(CpuBackend, AnAbortEndsTheGraphAndTheNextOneRuns) {
    for (const int threads : {1, 2}) {
        CpuBackend backend(threads);
        Graph graph(backend, 100);
        int polls = 0;
        const auto third_poll = [&] { return ++polls == 3; };
        EXPECT_EQ(code_thrown_by([&] { (void)graph.compute(backend, third_poll); }), "CANCELLED");
        EXPECT_EQ(polls, 3);
        EXPECT_EQ(graph.compute(backend), Graph::expected(100));
        EXPECT_EQ(polls, 3) << "the callback outlived its computation";
    }
}

// B1, on the CPU
TEST(CpuBackend, AConstructionThatFailsLetsTheNextOneIn) {
    EXPECT_EQ(code_thrown_by([] { const CpuBackend backend(-1); }), "INVALID_REQUEST");
    EXPECT_EQ(code_thrown_by([] {
                  construct_backend([] { throw Error(ErrorCode::kInternal, "no such device"); });
              }),
              "INTERNAL");
    CpuBackend backend(1);
    Graph graph(backend, 2);
    EXPECT_EQ(graph.compute(backend), Graph::expected(2));
}

TEST(CpuBackend, ConstructionsTakeTurns) {
    constexpr int kThreads = 8;
    std::atomic<int> inside = 0;
    std::atomic<int> together = 0;
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < kThreads; ++i) {
            threads.emplace_back([&] {
                for (int round = 0; round < 50; ++round) {
                    construct_backend([&] {
                        if (++inside > 1) ++together;
                        std::this_thread::yield();
                        --inside;
                    });
                }
            });
        }
    }
    EXPECT_EQ(together, 0);
}

// B2, on the CPU
TEST(CpuBackend, ManyAreCreatedAndComputeAtOnce) {
    constexpr int kThreads = 8;
    std::atomic<int> correct = 0;
    const auto round = [&] {
        std::vector<std::jthread> threads;
        for (int i = 0; i < kThreads; ++i) {
            threads.emplace_back([&] {
                CpuBackend backend(1);
                Graph graph(backend, 7);
                for (int run = 0; run < 16; ++run) {
                    if (graph.compute(backend) == Graph::expected(7)) ++correct;
                }
            });
        }
    };
    round();
    EXPECT_EQ(correct, kThreads * 16);
    // All of them released, the next ones are as good.
    round();
    EXPECT_EQ(correct, 2 * kThreads * 16);
}

}  // namespace
}  // namespace wavepool
