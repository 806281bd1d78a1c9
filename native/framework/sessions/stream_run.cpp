#include "framework/sessions/stream_run.h"

#include <string>

namespace wavepool {

IStreamingVoiceTaskSession& require_streaming(IVoiceTaskSession& session) {
    auto* streaming = dynamic_cast<IStreamingVoiceTaskSession*>(&session);
    if (streaming == nullptr || session.run_mode() != RunMode::kStreaming) {
        throw Error(ErrorCode::kInvalidRequest,
                    std::string(session.family()) + ": a stream needs a session in streaming mode");
    }
    return *streaming;
}

StreamRun::StreamRun(IVoiceTaskSession& session, const TaskRequest& request)
    : session_(&require_streaming(session)), cancel_(request.cancel) {
    session_->reset();
    try {
        session_->start_stream(request);
    } catch (...) {
        session_->reset();
        throw;
    }
    open_ = true;
}

void StreamRun::require_open() const {
    if (!open_) throw Error(ErrorCode::kInvalidRequest, "the stream has ended");
}

std::optional<TaskResult> StreamRun::push(std::span<const float> samples) {
    require_open();
    try {
        if (cancel_.cancelled()) throw Error(ErrorCode::kCancelled, "the stream was cancelled");
        return session_->process_audio_chunk(samples);
    } catch (...) {
        reset();
        throw;
    }
}

TaskResult StreamRun::finish() {
    require_open();
    try {
        if (cancel_.cancelled()) throw Error(ErrorCode::kCancelled, "the stream was cancelled");
        TaskResult rest = session_->finish_stream();
        reset();
        return rest;
    } catch (...) {
        reset();
        throw;
    }
}

void StreamRun::reset() noexcept {
    if (!open_) return;
    open_ = false;
    session_->reset();
}

}  // namespace wavepool
