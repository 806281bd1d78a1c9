#include "framework/models/offline_limits.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "framework/compute/backend.h"

namespace wavepool {
namespace {

constexpr float kLoudest = 16;

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::kInvalidRequest, why); }

}  // namespace

void OfflineLimits::check(const SessionOptions& options) const {
    if (options.mode != RunMode::kOffline) refuse(std::string(family) + " runs offline only");
    if (options.threads < 1 || options.threads > CpuBackend::kMaxThreads) {
        refuse("a session has 1 to " + std::to_string(CpuBackend::kMaxThreads) + " threads, not " +
               std::to_string(options.threads));
    }
    if (options.max_batch < 1 || options.max_batch > most_items) {
        refuse("a batch has 1 to " + std::to_string(most_items) + " items, not " +
               std::to_string(options.max_batch));
    }
    if (!(options.max_segment_seconds >= 0 && options.max_segment_seconds <= longest_seconds)) {
        refuse(std::string(family) + " takes segments of up to " +
               std::to_string(std::lround(longest_seconds)) + " s");
    }
}

std::int64_t OfflineLimits::longest_samples(const SessionOptions& options) const noexcept {
    const double seconds =
        options.max_segment_seconds > 0 ? options.max_segment_seconds : longest_seconds;
    return std::max<std::int64_t>(std::llround(std::ceil(seconds * kSampleRate)), 1);
}

void check_segment(const AudioSegment& segment, std::int64_t longest_samples) {
    const auto& [store, start, count] = segment;
    if (!store) refuse("a request without audio");
    if (count == 0) throw Error(ErrorCode::kInputEmpty, "a segment without samples");
    const std::int64_t end = store->end();
    if (count < 0 || start < store->begin() || start > end || count > end - start) {
        refuse("segment " + std::to_string(start) + " + " + std::to_string(count) +
               " is not within the resident audio");
    }
    if (count > longest_samples) {
        throw Error(ErrorCode::kInputTooLarge, "a segment of " + std::to_string(count) +
                                                   " samples; at most " +
                                                   std::to_string(longest_samples) + " fit");
    }
}

void check_batch(std::size_t items, std::size_t most) {
    if (items > most) {
        refuse("a batch of " + std::to_string(items) + " items; at most " + std::to_string(most) +
               " fit");
    }
}

void copy_samples(const AudioSegment& segment, std::span<float> out) {
    segment.store->copy(segment.start, out);
    for (float& sample : out) {
        if (!std::isfinite(sample)) refuse("a sample is not a finite number");
        sample = std::clamp(sample, -kLoudest, kLoudest);
    }
}

TaskResult run_alone(IBatchedOfflineVoiceTaskSession& session, const TaskRequest& request) {
    TaskOutcome outcome = std::move(session.run_batch(std::span(&request, 1)).front());
    if (const Error* error = std::get_if<Error>(&outcome)) throw Error(*error);
    return std::get<TaskResult>(std::move(outcome));
}

}  // namespace wavepool
