#include "framework/models/weight_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "framework/compute/backend.h"
#include "tests/support/error_code.h"

namespace wavepool {
namespace {

using testing::code_thrown_by;

const WeightKey kKey{.component = "decoder", .device = "cpu", .storage = "f32"};

// W1
TEST(WeightCache, ConcurrentCallersShareOneRunOfTheFactory) {
    constexpr int kCallers = 16;
    WeightCache cache;
    std::atomic<int> runs = 0;
    std::vector<std::shared_ptr<const int>> values(kCallers);
    std::latch start(kCallers);
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < kCallers; ++i) {
            threads.emplace_back([&, i] {
                start.arrive_and_wait();
                values[i] = cache.get_or_load<int>(kKey, [&] { return ++runs; });
            });
        }
    }
    EXPECT_EQ(runs, 1);
    for (const auto& value : values) EXPECT_EQ(value, values.front());
    EXPECT_EQ(*values.front(), 1);
}

// W2
TEST(WeightCache, AnotherComponentDeviceOrStorageIsAnotherObject) {
    WeightCache cache;
    int runs = 0;
    const auto load = [&](const WeightKey& key) {
        return cache.get_or_load<int>(key, [&] { return ++runs; });
    };
    const auto first = load(kKey);
    EXPECT_NE(load({"encoder", "cpu", "f32"}), first);
    EXPECT_NE(load({"decoder", "cuda0", "f32"}), first);
    EXPECT_NE(load({"decoder", "cpu", "q8_0"}), first);
    EXPECT_EQ(load(kKey), first);
    EXPECT_EQ(runs, 4);
    EXPECT_EQ(code_thrown_by([&] { (void)cache.get_or_load<double>(kKey, [] { return 1.0; }); }),
              "INTERNAL");
}

// W3
TEST(WeightCache, AFactoryThatFailedRunsAgain) {
    WeightCache cache;
    int runs = 0;
    const auto load = [&](bool fail) {
        return cache.get_or_load<int>(kKey, [&] {
            ++runs;
            if (fail) throw Error(ErrorCode::kModelLoadFailed, "for the test");
            return 7;
        });
    };
    EXPECT_EQ(code_thrown_by([&] { (void)load(true); }), "MODEL_LOAD_FAILED");
    EXPECT_EQ(code_thrown_by([&] {
                  (void)cache.get_or_load_shared<int>(kKey,
                                                      [] { return std::shared_ptr<const int>(); });
              }),
              "MODEL_LOAD_FAILED");
    EXPECT_EQ(*load(false), 7);
    EXPECT_EQ(*load(true), 7);
    EXPECT_EQ(runs, 2);
}

// W3
TEST(WeightCache, WhoWaitedForAFactoryThatFailsRunsItsOwn) {
    WeightCache cache;
    std::latch running(1);
    std::latch waiting(1);
    std::atomic<int> failures = 0;
    std::atomic<int> successes = 0;
    {
        const std::jthread first([&] {
            try {
                (void)cache.get_or_load<int>(kKey, [&]() -> int {
                    running.count_down();
                    waiting.wait();
                    throw std::runtime_error("for the test");
                });
            } catch (const std::runtime_error&) {
                ++failures;
            }
        });
        const std::jthread second([&] {
            running.wait();
            waiting.count_down();
            successes += *cache.get_or_load<int>(kKey, [] { return 1; });
        });
    }
    EXPECT_EQ(failures, 1);
    EXPECT_EQ(successes, 1);
}

TEST(WeightCache, AFactoryOfOneKeyDoesNotHoldUpAnother) {
    WeightCache cache;
    // Loads one component from inside the factory of another: with one lock for all it would hang.
    const auto outer = cache.get_or_load<int>(kKey, [&] {
        return 1 + *cache.get_or_load<int>({"encoder", "cpu", "f32"}, [] { return 1; });
    });
    EXPECT_EQ(*outer, 2);
}

TEST(WeightCache, TakesOverASharedPointerWithoutACopy) {
    WeightCache cache;
    const auto made = std::make_shared<const std::vector<int>>(3, 7);
    const auto held = cache.get_or_load_shared<std::vector<int>>(kKey, [&] { return made; });
    EXPECT_EQ(held.get(), made.get());
}

// W4
TEST(WeightCache, KeepsWeightsForTheNextUserAndReleasesThemWithTheLast) {
    std::optional<WeightCache> cache(std::in_place);
    const auto load = [&] { return cache->get_or_load<int>(kKey, [] { return 1; }); };
    std::weak_ptr<const int> watched = load();
    EXPECT_FALSE(watched.expired()) << "the first user is gone, the cache holds on";
    auto user = load();
    cache.reset();
    EXPECT_FALSE(watched.expired()) << "the cache is gone, a user holds on";
    user.reset();
    EXPECT_TRUE(watched.expired());
}

/// A matrix that multiplies by `factor`, in a buffer of its own.
struct Uploaded {
    static constexpr std::int64_t kSize = 32;

    explicit Uploaded(float factor) : context(ggml_init({ggml_tensor_overhead(), nullptr, true})) {
        matrix = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, kSize, kSize);
        // The backend that uploads is gone when this returns.
        const CpuBackend backend(1);
        buffer.reset(ggml_backend_alloc_ctx_tensors(context.get(), backend.get()));
        std::vector<float> values(kSize * kSize, 0.0F);
        for (std::int64_t i = 0; i < kSize; ++i) values[i * kSize + i] = factor;
        ggml_backend_tensor_set(matrix, values.data(), 0, ggml_nbytes(matrix));
    }

    ContextPtr context;
    BufferPtr buffer;
    ggml_tensor* matrix = nullptr;
};

float computed(CpuBackend& backend, const Uploaded& weights, float input) {
    const ContextPtr context(
        ggml_init({8 * ggml_tensor_overhead() + ggml_graph_overhead(), nullptr, true}));
    ggml_tensor* x = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, Uploaded::kSize);
    ggml_set_input(x);
    ggml_tensor* y = ggml_mul_mat(context.get(), weights.matrix, x);
    ggml_set_output(y);
    ggml_cgraph* graph = ggml_new_graph(context.get());
    ggml_build_forward_expand(graph, y);
    const GraphAllocatorPtr allocator(ggml_gallocr_new(ggml_backend_cpu_buffer_type()));
    EXPECT_TRUE(ggml_gallocr_alloc_graph(allocator.get(), graph));
    const std::vector<float> values(Uploaded::kSize, input);
    ggml_backend_tensor_set(x, values.data(), 0, ggml_nbytes(x));
    backend.compute(graph);
    float result = 0;
    ggml_backend_tensor_get(y, &result, 0, sizeof(result));
    return result;
}

// W5, on the CPU
TEST(WeightCache, UploadedWeightsOutliveTheBackendThatUploadedThem) {
    std::optional<WeightCache> cache(std::in_place);
    std::atomic<int> uploads = 0;
    const auto load = [&] {
        return cache->get_or_load<Uploaded>(kKey, [&] {
            ++uploads;
            return Uploaded(3);
        });
    };
    std::weak_ptr<const Uploaded> watched = load();
    std::atomic<int> correct = 0;
    {
        std::vector<std::jthread> graphs;
        for (int graph = 1; graph <= 2; ++graph) {
            graphs.emplace_back([&, graph] {
                CpuBackend backend(1);
                for (int run = 0; run < 16; ++run) {
                    const auto input = static_cast<float>(graph * 100 + run);
                    correct += computed(backend, *load(), input) == 3 * input;
                }
            });
        }
    }
    EXPECT_EQ(correct, 32);
    EXPECT_EQ(uploads, 1);
    cache.reset();
    EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace wavepool
