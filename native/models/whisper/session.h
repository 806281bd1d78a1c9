#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "framework/models/model.h"
#include "framework/sessions/session.h"
#include "models/whisper/decoding/batch.h"
#include "models/whisper/decoding/recognizer.h"
#include "models/whisper/request/request_options.h"

namespace wavepool::whisper {

/// The longest segment a session accepts. Up to here a request needs less than the 30 s of context
/// that the model was trained with, which are dearer by the second (docs/models.md).
inline constexpr double kLongestSegmentSeconds = 23;

/// Transcribes segments, several at once where the model has a network of ours.
///
/// Options of one request:
///   suppressBlank  bool: the audio is known to be speech: it is never taken for silence, and some
///                  text comes before the end token
///   language       string: a code of ModelInfo::languages. Without it the likeliest is found
///                  first, for one more run of the encoder (not in English-only models)
///   translate      bool: into English; multilingual models only
///   prompt         string: context; its last 223 tokens are used
///   words          bool: words with times, from the attention of the decoder's alignment heads
///
/// How a request is decoded:
///   - Short segments: the encoder is given the segment and some seconds of silence instead of 30 s
///     (guards.h). This is done once, greedily, and stands if the end token came, there is text, no
///     loop, and a mean log probability of at least -1. Otherwise the request is run again with
///     30 s.
///   - With 30 s, decoding is greedy, then at temperatures 0.2 to 1, until the mean log probability
///     is at least -1 (or silence is likelier than 0.6) and the entropy of the last 32 tokens at
///     least 2.4. The last one stands. Random numbers start from one seed.
///   - Our network does all of this but temperatures above 0 and words. Requests with words are run
///     by whisper.cpp, one after the other, and so is one that needs a higher temperature, from the
///     beginning and with 30 s, after all others.
///   - No speech: text is dropped when silence is likelier than 0.6 and the mean log probability is
///     below -1.
///   - Tokens of noises and brackets ("[", "(", musical notes) are never chosen.
///   - Nothing is remembered from request to request.
class Session final : public IVoiceTaskSession,
                      public IOfflineVoiceTaskSession,
                      public IBatchedOfflineVoiceTaskSession,
                      public IParallelVoiceTaskSessionFactory {
  public:
    /// What private_bytes() of a new session would be, within 10 %. `network` may be null, or
    /// planned. Throws Error{kInvalidRequest}.
    [[nodiscard]] static std::size_t bytes(const Parameters& parameters,
                                           const NetworkWeights* network,
                                           const SessionOptions& options);

    /// Throws Error{kInvalidRequest | kInsufficientMemory}.
    Session(std::shared_ptr<const SharedModel> model, const SessionOptions& options);

    [[nodiscard]] std::string_view family() const noexcept override;
    [[nodiscard]] TaskKind task_kind() const noexcept override { return TaskKind::kAsr; }
    [[nodiscard]] RunMode run_mode() const noexcept override { return RunMode::kOffline; }
    void prepare(const TaskRequest& request) override;
    /// Grows with the first long prompt and the first words.
    [[nodiscard]] std::size_t private_bytes() const noexcept override;

    [[nodiscard]] TaskResult run(const TaskRequest& request) override;

    using IBatchedOfflineVoiceTaskSession::run_batch;
    [[nodiscard]] std::size_t max_batch() const noexcept override { return options_.max_batch; }
    [[nodiscard]] std::vector<TaskOutcome> run_batch(std::span<const TaskRequest> requests,
                                                     const OnResult& on_result) override;

    [[nodiscard]] std::size_t parallel_session_capacity() const noexcept override;
    [[nodiscard]] std::unique_ptr<IVoiceTaskSession> create_parallel_session() const override;

  private:
    void read(const TaskRequest& request, Clip& clip) const;
    [[nodiscard]] TaskResult run_stock(const TaskRequest& request, Recognizer::Context context);

    std::shared_ptr<const SharedModel> model_;
    SessionOptions options_;
    std::int64_t longest_samples_;
    Clip clip_;  ///< samples of the request that whisper.cpp runs
    Recognizer recognizer_;
    std::unique_ptr<Network> network_;  ///< null where the model has none
};

}  // namespace wavepool::whisper
