#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "framework/models/model.h"
#include "framework/sessions/session.h"

namespace wavepool {

/// The limits of a family that recognizes segments offline, and the check of options against them.
struct OfflineLimits {
    std::string_view family;
    std::size_t most_items;  ///< items of one batch
    double longest_seconds;  ///< length of one segment

    /// Throws Error{kInvalidRequest} for options outside of these limits.
    void check(const SessionOptions& options) const;

    /// Samples of the longest segment that a session with these (checked) options takes.
    [[nodiscard]] std::int64_t longest_samples(const SessionOptions& options) const noexcept;
};

/// Throws Error{kInvalidRequest} unless the segment is resident, Error{kInputEmpty} for one without
/// samples, Error{kInputTooLarge} for one of more than `longest_samples`.
void check_segment(const AudioSegment& segment, std::int64_t longest_samples);

/// Throws Error{kInvalidRequest} for a batch of more than `most` items.
void check_batch(std::size_t items, std::size_t most);

/// Copies a segment and keeps it in [-16, 16]: louder than any recording, and products beyond could
/// leave the range of f16. Throws Error{kInvalidRequest} for a sample that is not finite.
void copy_samples(const AudioSegment& segment, std::span<float> out);

/// The outcome of the one request of a batch, thrown if it is an error.
[[nodiscard]] TaskResult run_alone(IBatchedOfflineVoiceTaskSession& session,
                                   const TaskRequest& request);

}  // namespace wavepool
