#include "framework/sessions/session.h"

namespace wavepool {

std::string_view task_kind_name(TaskKind kind) noexcept {
    switch (kind) {
        case TaskKind::kAsr:
            return "asr";
        case TaskKind::kVad:
            return "vad";
    }
    return "unknown";
}

std::string_view run_mode_name(RunMode mode) noexcept {
    switch (mode) {
        case RunMode::kOffline:
            return "offline";
        case RunMode::kStreaming:
            return "streaming";
    }
    return "unknown";
}

std::vector<float> AudioSegment::copy() const {
    if (!store) throw Error(ErrorCode::kInvalidRequest, "the request has no audio");
    // Checked before the samples are allocated: a wrong count must not cost memory.
    const std::int64_t end = store->end();
    if (start < 0 || count < 0 || start > end || count > end - start) {
        throw Error(ErrorCode::kInvalidRequest,
                    "segment " + std::to_string(start) + " + " + std::to_string(count) +
                        " lies outside the decoded audio, which ends at " + std::to_string(end));
    }
    std::vector<float> samples(static_cast<std::size_t>(count));
    store->copy(start, samples);
    return samples;
}

}  // namespace wavepool
