#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "framework/cancellation.h"
#include "framework/error.h"
#include "framework/sample_store.h"

namespace wavepool {

enum class TaskKind { kAsr, kVad };
enum class RunMode { kOffline, kStreaming };

[[nodiscard]] std::string_view task_kind_name(TaskKind kind) noexcept;  ///< "asr", "vad"
[[nodiscard]] std::string_view run_mode_name(RunMode mode) noexcept;    ///< "offline", "streaming"

/// Samples [start, start + count) of an input. The store must keep the range resident until the
/// request has ended.
struct AudioSegment {
    std::shared_ptr<const SampleStore> store;
    std::int64_t start = 0;
    std::int64_t count = 0;

    [[nodiscard]] std::vector<float> copy() const;
};

/// The state that a task keeps from one window of an input to the next (for Silero: LSTM h and c,
/// left context). It is owned by the job, never by a session, so that no session has to be held for
/// the length of a file. One request at a time may use a state; a session that fails leaves it as
/// it was before the request.
class TaskState {
  public:
    TaskState() = default;
    TaskState(const TaskState&) = delete;
    TaskState& operator=(const TaskState&) = delete;
    virtual ~TaskState() = default;
};

/// Values are what a JavaScript option can be. Names and defaults belong to the family (see its
/// header), and ModelInfo::option_names lists them. What asr families may take:
///   suppressBlank  bool: the audio is known to be speech, so the likeliest words are wanted where
///                  it would find none. Every one takes this.
///   language       string: one of ModelInfo::languages; without it the model decides
///   translate      bool: the text is English whatever is spoken
///   prompt         string: what was said before, or words that may occur
///   words          bool: fills TimedPiece::words
using OptionValue = std::variant<bool, double, std::string>;
using TaskOptions = std::map<std::string, OptionValue, std::less<>>;

struct TaskRequest {
    AudioSegment audio;
    std::shared_ptr<TaskState> state;  ///< null for tasks without state
    TaskOptions options;
    CancelToken cancel;
};

/// One word. Times are seconds from the beginning of the request's audio and lie within it.
struct TimedWord {
    std::string text;  ///< UTF-8, without spaces around it, its punctuation included
    double start = 0;
    double end = 0;
    float probability = 0;  ///< in [0, 1]: the mean of its tokens'
};

/// A part of a request's audio to which the recognizer itself gave times.
struct TimedPiece {
    std::string text;  ///< UTF-8, trimmed, not empty
    double start = 0;  ///< as for a word
    double end = 0;
    float average_log_probability = 0;  ///< mean over its tokens, natural logarithm
    float no_speech_probability = 0;    ///< in [0, 1]
    float temperature = 0;              ///< with which the text was decoded; 0 = greedy
    std::vector<TimedWord> words;       ///< if asked for
};

/// A union of what the tasks return; a family fills what its task has.
struct TaskResult {
    std::string text;                  ///< asr: UTF-8, trimmed
    std::vector<TimedPiece> pieces;    ///< asr: in order; empty where a family gives no times
    std::string language;              ///< asr: ISO 639-1, given or detected; empty = not told
    std::vector<std::int32_t> tokens;  ///< asr: token ids without start and end
    bool truncated = false;  ///< asr: the token limit ended the segment, not the end token
    std::vector<float>
        probabilities;  ///< vad: speech probability of each window of the request, in [0, 1]
};

/// A member of a batch ends on its own: a bad or cancelled one carries its error, its mates their
/// results.
using TaskOutcome = std::variant<TaskResult, Error>;

/// One mutable execution state: graphs, caches, generator, stream state. Runs one request (or
/// batch) at a time, and is only ever called from the thread that leases it. The immutable weights
/// are shared and outlive it.
class IVoiceTaskSession {
  public:
    virtual ~IVoiceTaskSession() = default;

    [[nodiscard]] virtual std::string_view family() const noexcept = 0;
    [[nodiscard]] virtual TaskKind task_kind() const noexcept = 0;
    [[nodiscard]] virtual RunMode run_mode() const noexcept = 0;

    /// Checks one request against what this session can run, before anything is computed.
    /// Throws Error{kInvalidRequest | kInputTooLarge | kInputEmpty}; the session is unchanged.
    virtual void prepare(const TaskRequest& request) = 0;

    /// Resident bytes that belong to this session alone (caches and compute buffers).
    [[nodiscard]] virtual std::size_t private_bytes() const noexcept = 0;
};

class IOfflineVoiceTaskSession {
  public:
    virtual ~IOfflineVoiceTaskSession() = default;

    /// Throws Error; kCancelled once the request's token is raised.
    [[nodiscard]] virtual TaskResult run(const TaskRequest& request) = 0;
};

/// Many requests in one session and one slot. The result of an item equals, bit for bit, the result
/// of that item alone.
class IBatchedOfflineVoiceTaskSession {
  public:
    virtual ~IBatchedOfflineVoiceTaskSession() = default;

    using OnResult = std::function<void(std::size_t index, const TaskOutcome& outcome)>;

    [[nodiscard]] virtual std::size_t max_batch() const noexcept = 0;

    /// Outcomes in the order of the requests. `on_result` (may be empty) is called once per item,
    /// as soon as it has ended, on the calling thread. Throws only what fails the batch as a whole
    /// (e.g. more than max_batch() items).
    [[nodiscard]] virtual std::vector<TaskOutcome> run_batch(std::span<const TaskRequest> requests,
                                                             const OnResult& on_result) = 0;

    [[nodiscard]] std::vector<TaskOutcome> run_batch(std::span<const TaskRequest> requests) {
        return run_batch(requests, OnResult{});
    }
};

/// The interface for live callers. One stream leases the session from start_stream to
/// finish_stream or reset. Its results are parts: one after the other they are what the task says
/// of the whole input, bit for bit and however the input is cut into chunks. They come as soon as
/// they are final, so nothing in a session grows with the stream unless the task cannot say
/// anything before its end.
///
/// What any call throws ends the stream as reset() does. StreamRun (stream_run.h) keeps the order
/// of the calls for callers that cannot be trusted with it.
class IStreamingVoiceTaskSession {
  public:
    virtual ~IStreamingVoiceTaskSession() = default;

    /// Takes the options and the cancel token of the request; its audio and its state are ignored.
    /// Throws Error{kInvalidRequest} for options that it does not know, and while a stream is open,
    /// which then goes on.
    virtual void start_stream(const TaskRequest& request) = 0;
    /// Samples are 16 kHz mono f32. Returns what became final with this chunk, if anything.
    /// Throws Error{kInvalidRequest} unless a stream is open, kInputUndecodable, kCancelled.
    [[nodiscard]] virtual std::optional<TaskResult> process_audio_chunk(
        std::span<const float> samples) = 0;
    /// Ends the stream and returns the rest, which may be empty. Throws as process_audio_chunk
    /// does.
    [[nodiscard]] virtual TaskResult finish_stream() = 0;
    /// Abandons the stream; the next start_stream finds a fresh session. Idempotent.
    virtual void reset() noexcept = 0;
};

/// Implemented by a primary session next to its task interfaces.
class IParallelVoiceTaskSessionFactory {
  public:
    virtual ~IParallelVoiceTaskSessionFactory() = default;

    /// How many sessions this exact family, task, mode and options supports, the primary included.
    /// 1 means that sessions cannot be used in parallel.
    [[nodiscard]] virtual std::size_t parallel_session_capacity() const noexcept = 0;

    /// A clone: shares the weights, owns everything mutable. Throws on failure (never null on
    /// success).
    [[nodiscard]] virtual std::unique_ptr<IVoiceTaskSession> create_parallel_session() const = 0;
};

}  // namespace wavepool
