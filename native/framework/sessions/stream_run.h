#pragma once

#include <optional>
#include <span>

#include "framework/sessions/session.h"

namespace wavepool {

/// One stream on a leased session, from its start to its end.
///
///   open ──finish, reset, or anything that throws──▶ ended
///
/// However it ends, and also when it is destroyed open, the session is as fresh as before: what an
/// adapter leaves behind when it throws is reset. Every method is called on the thread that leases
/// the session, which outlives it.
class StreamRun {
  public:
    /// Throws Error{kInvalidRequest} for a session that is not of the streaming mode, and what
    /// start_stream throws.
    StreamRun(IVoiceTaskSession& session, const TaskRequest& request);
    ~StreamRun() { reset(); }
    StreamRun(const StreamRun&) = delete;
    StreamRun& operator=(const StreamRun&) = delete;

    /// Throws Error{kInvalidRequest} once it has ended, kCancelled when the request's token is
    /// raised, and what the session throws.
    [[nodiscard]] std::optional<TaskResult> push(std::span<const float> samples);
    [[nodiscard]] TaskResult finish();
    /// Idempotent.
    void reset() noexcept;

  private:
    void require_open() const;

    IStreamingVoiceTaskSession* session_;
    CancelToken cancel_;
    bool open_ = false;
};

/// The streaming face of a session; throws Error{kInvalidRequest} where it has none.
[[nodiscard]] IStreamingVoiceTaskSession& require_streaming(IVoiceTaskSession& session);

}  // namespace wavepool
