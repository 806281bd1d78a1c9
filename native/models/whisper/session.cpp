#include "models/whisper/session.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <string>
#include <utility>

#include "framework/error.h"
#include "framework/session_pool.h"

namespace wavepool::whisper {
namespace {

constexpr std::size_t kMostItems = 64;

const SessionOptions& checked(const SessionOptions& options) {
    if (options.mode != RunMode::kOffline) {
        throw Error(ErrorCode::kInvalidRequest, "whisper runs offline only");
    }
    if (options.threads < 1 || options.threads > CpuBackend::kMaxThreads) {
        throw Error(ErrorCode::kInvalidRequest,
                    "a session has 1 to " + std::to_string(CpuBackend::kMaxThreads) +
                        " threads, not " + std::to_string(options.threads));
    }
    if (options.max_batch < 1 || options.max_batch > kMostItems) {
        throw Error(ErrorCode::kInvalidRequest, "a batch has 1 to " + std::to_string(kMostItems) +
                                                    " items, not " +
                                                    std::to_string(options.max_batch));
    }
    if (!(options.max_segment_seconds >= 0 &&
          options.max_segment_seconds <= kLongestSegmentSeconds)) {
        throw Error(ErrorCode::kInvalidRequest,
                    "whisper takes segments of up to " +
                        std::to_string(std::lround(kLongestSegmentSeconds)) + " s");
    }
    return options;
}

std::int64_t longest_samples(const SessionOptions& options) {
    const double seconds =
        options.max_segment_seconds > 0 ? options.max_segment_seconds : kLongestSegmentSeconds;
    return std::max<std::int64_t>(
        std::llround(std::ceil(seconds * static_cast<double>(kSampleRate))), 1);
}

/// Louder than any recording; beyond it a product could leave the range of f16.
constexpr float kLoudest = 16;

void check_samples(std::span<float> samples) {
    for (float& sample : samples) {
        if (!std::isfinite(sample)) {
            throw Error(ErrorCode::kInvalidRequest, "a sample is not a finite number");
        }
        sample = std::clamp(sample, -kLoudest, kLoudest);
    }
}

}  // namespace

std::size_t Session::bytes(const Parameters& sizes, const SessionOptions& options) {
    checked(options);
    const auto width = static_cast<std::size_t>(sizes.state);
    const auto layers = static_cast<std::size_t>(sizes.text_layers);
    constexpr std::size_t kFrames = kAudioContext;
    constexpr std::size_t kPaddedFrames = 1536;
    constexpr std::size_t kPaddedTokens = 512;
    constexpr std::size_t kKeyAndValue = 2 * sizeof(ggml_fp16_t);
    const std::size_t caches =
        kKeyAndValue * width * (kPaddedTokens * layers + kPaddedFrames * layers + kPaddedFrames);
    // Of the graphs: outputs of the encoder's width (the first convolution's, the encoder's with a
    // hidden layer four times as wide, the cross attention's) and the likelihoods of a short
    // prompt.
    const std::size_t row = kFrames * width * sizeof(float);
    constexpr std::size_t kPromptTokens = 5;
    const auto vocabulary = static_cast<std::size_t>(sizes.vocabulary);
    const std::size_t graphs = row * (5 + 7 + 1) + kPromptTokens * vocabulary * sizeof(float);
    constexpr std::size_t kGraphs = 4;
    const std::size_t descriptions =
        kGraphs * (4096 * ggml_tensor_overhead() + ggml_graph_overhead());
    const std::size_t likelihoods = 3 * vocabulary * sizeof(float);
    return caches + graphs + descriptions + likelihoods +
           static_cast<std::size_t>(longest_samples(options)) * sizeof(float);
}

Session::Session(std::shared_ptr<const SharedModel> model, const SessionOptions& options)
    : model_(std::move(model)),
      options_(checked(options)),
      longest_samples_(longest_samples(options)),
      recognizer_(model_, options.threads) {
    samples_.reserve(static_cast<std::size_t>(longest_samples_));
}

std::string_view Session::family() const noexcept { return "whisper"; }

void Session::prepare(const TaskRequest& request) {
    if (!request.audio.store) throw Error(ErrorCode::kInvalidRequest, "a request without audio");
    static_cast<void>(read_options(request.options, model_->parameters));
    const AudioSegment& audio = request.audio;
    if (audio.count == 0) throw Error(ErrorCode::kInputEmpty, "a segment without samples");
    const std::int64_t end = audio.store->end();
    if (audio.count < 0 || audio.start < audio.store->begin() || audio.start > end ||
        audio.count > end - audio.start) {
        throw Error(ErrorCode::kInvalidRequest, "segment " + std::to_string(audio.start) + " + " +
                                                    std::to_string(audio.count) +
                                                    " is not within the resident audio");
    }
    if (audio.count > longest_samples_) {
        throw Error(ErrorCode::kInputTooLarge, "a segment of " + std::to_string(audio.count) +
                                                   " samples; at most " +
                                                   std::to_string(longest_samples_) + " fit");
    }
}

std::size_t Session::private_bytes() const noexcept {
    return recognizer_.bytes() + samples_.capacity() * sizeof(float);
}

TaskResult Session::run(const TaskRequest& request) {
    prepare(request);
    const RequestOptions options = read_options(request.options, model_->parameters);
    samples_.resize(static_cast<std::size_t>(request.audio.count));
    request.audio.store->copy(request.audio.start, samples_);
    check_samples(samples_);
    try {
        return recognizer_.run(samples_, options, request.cancel);
    } catch (const std::bad_alloc&) {
        throw Error(ErrorCode::kInsufficientMemory, "transcribing a segment");
    }
}

std::vector<TaskOutcome> Session::run_batch(std::span<const TaskRequest> requests,
                                            const OnResult& on_result) {
    if (requests.size() > options_.max_batch) {
        throw Error(ErrorCode::kInvalidRequest, "a batch of " + std::to_string(requests.size()) +
                                                    " items; at most " +
                                                    std::to_string(options_.max_batch) + " fit");
    }
    std::vector<TaskOutcome> outcomes;
    outcomes.reserve(requests.size());
    for (const TaskRequest& request : requests) {
        try {
            outcomes.emplace_back(run(request));
        } catch (...) {
            outcomes.emplace_back(error_from_current_exception());
        }
        if (on_result) on_result(outcomes.size() - 1, outcomes.back());
    }
    return outcomes;
}

std::size_t Session::parallel_session_capacity() const noexcept { return kMaxParallelSessions; }

std::unique_ptr<IVoiceTaskSession> Session::create_parallel_session() const {
    return std::make_unique<Session>(model_, options_);
}

}  // namespace wavepool::whisper
