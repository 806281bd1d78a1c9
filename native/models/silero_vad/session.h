#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "framework/models/model.h"
#include "framework/sessions/session.h"
#include "models/silero_vad/encoder.h"
#include "models/silero_vad/state.h"
#include "models/silero_vad/weights.h"

namespace wavepool::silero_vad {

/// Runs requests of any length in rounds of a fixed number of windows, so that memory does not grow
/// with the request. In a round the encoder takes the windows of all members together; then the
/// LSTM takes one window of each member per step. A window that is the one before it over again, as
/// in digital silence, is not encoded a second time; the LSTM runs on, for its state goes on
/// moving.
///
/// Probabilities are the same bits however an input is cut into requests and whatever else is in
/// the batch. Cancellation is seen between rounds. Computes on the calling thread only.
class VadSession final : public IVoiceTaskSession,
                         public IOfflineVoiceTaskSession,
                         public IBatchedOfflineVoiceTaskSession,
                         public IParallelVoiceTaskSessionFactory {
  public:
    static constexpr std::size_t kMaxBatch = 256;

    /// What private_bytes() is for these options, without making a session. Throws
    /// Error{kInvalidRequest} for options outside their range, as does the constructor.
    [[nodiscard]] static std::size_t bytes(const SessionOptions& options);

    VadSession(std::shared_ptr<const Weights> weights, const SessionOptions& options);

    [[nodiscard]] std::string_view family() const noexcept override;
    [[nodiscard]] TaskKind task_kind() const noexcept override { return TaskKind::kVad; }
    [[nodiscard]] RunMode run_mode() const noexcept override { return RunMode::kOffline; }
    void prepare(const TaskRequest& request) override;
    [[nodiscard]] std::size_t private_bytes() const noexcept override;

    [[nodiscard]] TaskResult run(const TaskRequest& request) override;

    using IBatchedOfflineVoiceTaskSession::run_batch;
    [[nodiscard]] std::size_t max_batch() const noexcept override { return options_.max_batch; }
    [[nodiscard]] std::vector<TaskOutcome> run_batch(std::span<const TaskRequest> requests,
                                                     const OnResult& on_result) override;

    [[nodiscard]] std::size_t parallel_session_capacity() const noexcept override;
    [[nodiscard]] std::unique_ptr<IVoiceTaskSession> create_parallel_session() const override;

  private:
    struct Member {
        std::size_t index;  ///< of its request
        const TaskRequest* request;
        VadState::Claim state;
        Memory memory;                 ///< becomes the state's when the request has succeeded
        std::int64_t start;            ///< first sample of its next window
        std::size_t windows;           ///< left to do
        std::size_t row = 0;           ///< of `gates_`, where its last window was encoded to
        std::size_t last_window = 0;   ///< in the round
        std::optional<Error> error{};  ///< ends the member after the round
        TaskResult result{};
    };

    [[nodiscard]] static Member admit(const TaskRequest& request, std::size_t index);
    /// False when the window is the member's last one over again, bit for bit.
    [[nodiscard]] static bool fill_window(Member& member, std::span<float, kInputSamples> input);
    /// The outcome of a member that has nothing left to do; commits its state when it succeeded.
    [[nodiscard]] static std::optional<TaskOutcome> end(Member& member);
    void run_round(std::span<Member> members);
    void encode(std::span<Member> members, std::size_t steps);
    void spread(std::span<Member> members, std::size_t steps);
    void recur(std::span<Member> members, std::size_t steps);

    std::shared_ptr<const Weights> weights_;
    SessionOptions options_;
    std::size_t round_windows_;
    Encoder encoder_;
    // Of the windows of one round, step by step; of the members of one round.
    std::vector<float> gates_;
    std::vector<std::size_t> rows_;  ///< of `gates_`, where the window was encoded to
    std::vector<float> hidden_;
    std::vector<float> cell_;
};

}  // namespace wavepool::silero_vad
