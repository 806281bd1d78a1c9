#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "framework/models/model.h"
#include "framework/sample_store.h"
#include "framework/sessions/session.h"
#include "models/silero_vad/session.h"
#include "models/silero_vad/state.h"
#include "models/silero_vad/weights.h"

namespace wavepool::silero_vad {

/// A live input on an offline session of its own: chunks wait in a store until they fill windows,
/// which then run as the next request of one state. So the probabilities are those of the offline
/// session, bit for bit, and between chunks less than one window of audio is held.
///
/// A part of a window at the end is filled up with zeros. There are no options.
class VadStreamSession final : public IVoiceTaskSession,
                               public IStreamingVoiceTaskSession,
                               public IParallelVoiceTaskSessionFactory {
  public:
    /// What private_bytes() is between streams, without making a session. Throws
    /// Error{kInvalidRequest} for options outside their range, as does the constructor.
    [[nodiscard]] static std::size_t bytes(const SessionOptions& options);

    VadStreamSession(std::shared_ptr<const Weights> weights, const SessionOptions& options);

    [[nodiscard]] std::string_view family() const noexcept override { return offline_.family(); }
    [[nodiscard]] TaskKind task_kind() const noexcept override { return TaskKind::kVad; }
    [[nodiscard]] RunMode run_mode() const noexcept override { return RunMode::kStreaming; }
    /// Only options are checked: a stream brings its audio later.
    void prepare(const TaskRequest& request) override;
    [[nodiscard]] std::size_t private_bytes() const noexcept override;

    void start_stream(const TaskRequest& request) override;
    [[nodiscard]] std::optional<TaskResult> process_audio_chunk(
        std::span<const float> samples) override;
    [[nodiscard]] TaskResult finish_stream() override;
    void reset() noexcept override { stream_.reset(); }

    [[nodiscard]] std::size_t parallel_session_capacity() const noexcept override {
        return offline_.parallel_session_capacity();
    }
    [[nodiscard]] std::unique_ptr<IVoiceTaskSession> create_parallel_session() const override;

  private:
    struct Stream {
        std::shared_ptr<SampleStore> store = std::make_shared<SampleStore>();
        std::shared_ptr<VadState> state = std::make_shared<VadState>();
        CancelToken cancel;
    };

    /// Out of the session, where only a call that succeeds puts it back.
    [[nodiscard]] Stream take_stream();
    /// Runs the next `count` samples of the stream, and forgets them.
    [[nodiscard]] TaskResult run(const Stream& stream, std::int64_t count);

    std::shared_ptr<const Weights> weights_;
    SessionOptions options_;
    VadSession offline_;
    std::optional<Stream> stream_;
};

}  // namespace wavepool::silero_vad
