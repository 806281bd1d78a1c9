#include "framework/sample_store.h"

#include <gtest/gtest.h>
#include <atomic>

#include <limits>
#include <numeric>
#include <thread>

#include "framework/sessions/session.h"
#include "tests/support/error_code.h"

namespace wavepool {
namespace {

using testing::code_thrown_by;

/// Samples whose value is their index.
std::vector<float> ramp(std::int64_t start, std::size_t count) {
    std::vector<float> samples(count);
    std::iota(samples.begin(), samples.end(), static_cast<float>(start));
    return samples;
}

std::vector<float> copied(const SampleStore& store, std::int64_t start, std::size_t count) {
    std::vector<float> samples(count);
    store.copy(start, samples);
    return samples;
}

TEST(SampleStore, CopiesAnyResidentRangeAcrossItsChunks) {
    SampleStore store;
    std::int64_t end = 0;
    for (const std::size_t count : {1UL, 15'999UL, 16'000UL, 40'000UL, 0UL, 7UL}) {
        store.append(ramp(end, count));
        end += static_cast<std::int64_t>(count);
    }
    EXPECT_EQ(store.begin(), 0);
    EXPECT_EQ(store.end(), end);
    EXPECT_EQ(copied(store, 0, static_cast<std::size_t>(end)),
              ramp(0, static_cast<std::size_t>(end)));
    EXPECT_EQ(copied(store, 15'998, 4), ramp(15'998, 4));
    EXPECT_EQ(copied(store, end, 0), ramp(end, 0));
}

TEST(SampleStore, MemoryFollowsWhatIsNotReleasedWhateverTheLength) {
    SampleStore store;
    for (std::int64_t second = 0; second < 600; ++second) {
        store.append(ramp(second * kSampleRate, kSampleRate));
        store.release_before(store.end() - kSampleRate);
        EXPECT_LE(store.resident_bytes(), 3 * kSampleRate * sizeof(float));
    }
    store.release_before(store.end());
    EXPECT_EQ(store.resident_bytes(), 0U);
    // Goes on where it was, also from the middle of a chunk.
    store.append(ramp(store.end(), 10));
    store.release_before(store.end());
    store.append(ramp(store.end(), 20'000));
    EXPECT_EQ(copied(store, store.end() - 20'000, 20'000), ramp(store.end() - 20'000, 20'000));
}

TEST(SampleStore, RefusesRangesThatAreReleasedOrNotYetThere) {
    SampleStore store;
    store.append(ramp(0, 50'000));
    store.release_before(20'000);
    std::vector<float> out(10);
    for (const std::int64_t start :
         {std::int64_t{-1}, std::int64_t{19'999}, std::int64_t{49'991},
          std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
        EXPECT_EQ(code_thrown_by([&] { store.copy(start, out); }), "INVALID_REQUEST") << start;
    }
    EXPECT_EQ(copied(store, 20'000, 30'000), ramp(20'000, 30'000));
}

TEST(SampleStore, ReleasingBackwardsOrBeyondTheEndIsHarmless) {
    SampleStore store;
    store.append(ramp(0, 100));
    store.release_before(1'000'000);
    EXPECT_EQ(store.begin(), 100);
    store.release_before(5);
    EXPECT_EQ(store.begin(), 100);
    store.append(ramp(100, 100));
    EXPECT_EQ(copied(store, 100, 100), ramp(100, 100));
}

TEST(SampleStore, ReadersSeeWholeRangesWhileADecoderAppendsAndReleases) {
    SampleStore store;
    constexpr std::int64_t kTotal = 40L * kSampleRate;
    // The reader may stand still for as long as it pleases: what it still wants is not released.
    std::atomic<std::int64_t> wanted{0};
    std::jthread decoder([&] {
        while (store.end() < kTotal) {
            store.append(ramp(store.end(), 1'000));
            store.release_before(wanted.load());
        }
    });
    std::vector<float> out(2'000);
    while (store.end() < kTotal) {
        const std::int64_t start = store.end() - 2'000;
        if (start < 0) continue;
        wanted.store(start);
        store.copy(start, out);
        ASSERT_EQ(out.front(), static_cast<float>(start));
        ASSERT_EQ(out.back(), static_cast<float>(start + 1'999));
    }
}

TEST(AudioSegment, RefusesACountThatTheStoreDoesNotHoldWithoutAllocatingIt) {
    auto store = std::make_shared<SampleStore>();
    store->append(ramp(0, 100));
    const auto code = [&](std::int64_t start, std::int64_t count) {
        return code_thrown_by([&] { (void)AudioSegment{store, start, count}.copy(); });
    };
    EXPECT_EQ(code(0, std::int64_t{1} << 60), "INVALID_REQUEST");
    EXPECT_EQ(code(0, -1), "INVALID_REQUEST");
    EXPECT_EQ(code(90, 11), "INVALID_REQUEST");
    EXPECT_EQ(code_thrown_by([] { (void)AudioSegment{nullptr, 0, 1}.copy(); }), "INVALID_REQUEST");
    EXPECT_EQ((AudioSegment{store, 90, 10}.copy()), ramp(90, 10));
}

}  // namespace
}  // namespace wavepool
