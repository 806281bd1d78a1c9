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
#include "models/moonshine/checkpoint.h"
#include "models/moonshine/detokenizer.h"
#include "models/moonshine/network.h"

namespace wavepool::moonshine {

/// The immutable part that all sessions of one checkpoint share.
struct SharedModel {
    std::shared_ptr<const Checkpoint> checkpoint;
    Detokenizer detokenizer;
};

/// The longest segment a session accepts: recognition gets worse beyond it (docs/models.md).
inline constexpr double kLongestSegmentSeconds = 20;

/// A clip shorter than this gets `kSilenceAroundSamples` of silence before and after it: without
/// any context the model repeats itself (docs/models.md).
inline constexpr std::int64_t kShortClipSamples = 6 * kSampleRate / 10;
inline constexpr std::int64_t kSilenceAroundSamples = 2 * kSampleRate / 10;

/// Whether the end of a text is one phrase of up to 16 tokens over and over: three times or more,
/// and 12 tokens or more in all. Greedy decoding does not leave such a loop by itself.
[[nodiscard]] bool ends_in_loop(std::span<const std::int32_t> tokens) noexcept;

/// Decode steps after which a segment is cut off: 6 tokens per second, which the fastest speech
/// comes close to, and 8 more, so that a fraction of a second can hold a word.
[[nodiscard]] std::int64_t token_limit(std::int64_t samples) noexcept;

/// Transcribes segments, greedily, several at once.
///
/// A segment whose text is empty or ends in a loop is recognized once more with silence before and
/// after it, which abrupt cuts lack. The second text counts when it is neither empty nor ends in a
/// loop. The result of a segment follows from its samples and options alone, in a batch as alone.
///
/// Options of one request:
///   suppressBlank  bool: the end token may not be the first one, so that there is some text. For
///                  audio that is known to be speech; without it, audio in which the model finds
///                  no words gives none.
class Session final : public IVoiceTaskSession,
                      public IOfflineVoiceTaskSession,
                      public IBatchedOfflineVoiceTaskSession,
                      public IParallelVoiceTaskSessionFactory {
  public:
    /// What private_bytes() would be for these options; the checkpoint may be a planned one. Throws
    /// Error{kInvalidRequest | kInsufficientMemory}.
    [[nodiscard]] static std::size_t bytes(const Checkpoint& checkpoint,
                                           const SessionOptions& options);

    /// Allocates for `options` now. Throws Error{kInvalidRequest | kInsufficientMemory}.
    Session(std::shared_ptr<const SharedModel> model, const SessionOptions& options);

    [[nodiscard]] std::string_view family() const noexcept override;
    [[nodiscard]] TaskKind task_kind() const noexcept override { return TaskKind::kAsr; }
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
    /// A clip that is being decoded; its place in members_ is its row in the network.
    struct Member {
        std::size_t index = 0;  ///< in the batch
        std::int64_t token_limit = 0;
        std::vector<std::int32_t> tokens;
        std::optional<TaskResult>
            first;  ///< the first result of a segment that is recognized twice
    };
    class Batch;

    /// Encodes the audio of a request into `row`, with `around` samples of silence on either side.
    void encode(const TaskRequest& request, std::int64_t row, std::int64_t around);

    std::shared_ptr<const SharedModel> model_;
    SessionOptions options_;
    std::int64_t longest_samples_;
    std::unique_ptr<Network> network_;
    std::vector<float> samples_;
    // The inputs and outputs of a decode step, one per row.
    std::vector<DecodeInput> inputs_;
    std::vector<std::int32_t> next_;
};

}  // namespace wavepool::moonshine
