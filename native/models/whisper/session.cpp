#include "models/whisper/session.h"

#include <algorithm>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "framework/error.h"
#include "framework/models/offline_limits.h"
#include "framework/sessions/session_pool.h"
#include "models/whisper/decoding/guards.h"

namespace wavepool::whisper {
namespace {

constexpr OfflineLimits kLimits{
    .family = "whisper", .most_items = 64, .longest_seconds = kLongestSegmentSeconds};

const SessionOptions& checked(const SessionOptions& options) {
    kLimits.check(options);
    return options;
}

/// The most bytes of keys and values that the rows of a network hold. Requests for which there is
/// no row wait until one is free.
constexpr std::int64_t kMostCacheBytes = std::int64_t{256} << 20;

NetworkLimits network_limits(const Parameters& sizes, const SessionOptions& options) {
    constexpr std::int64_t kKeyAndValue = 2 * sizeof(ggml_fp16_t);
    const std::int64_t row_bytes =
        kKeyAndValue * sizes.state * sizes.text_layers * (kAudioContext + kTextContext);
    const auto most = static_cast<std::int64_t>(options.max_batch);
    return {.rows = std::clamp<std::int64_t>(kMostCacheBytes / row_bytes, 1, most),
            .samples = std::max(kLimits.longest_samples(options), kShortestSamples),
            .threads = options.threads};
}

}  // namespace

std::size_t Session::bytes(const Parameters& sizes, const NetworkWeights* network,
                           const SessionOptions& options) {
    checked(options);
    const auto width = static_cast<std::size_t>(sizes.state);
    const auto layers = static_cast<std::size_t>(sizes.text_layers);
    constexpr std::size_t kFrames = kAudioContext;
    constexpr std::size_t kPaddedFrames = 1536;
    constexpr std::size_t kPaddedTokens = 512;
    constexpr std::size_t kKeyAndValue = 2 * sizeof(ggml_fp16_t);
    const std::size_t caches =
        kKeyAndValue * width * (kPaddedTokens * layers + kPaddedFrames * layers + kPaddedFrames);
    // The graphs hold outputs of the encoder's width (the first convolution's, the encoder's with a
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
    const auto clip = static_cast<std::size_t>(kLimits.longest_samples(options)) * sizeof(float);
    const std::size_t ours =
        network == nullptr ? 0 : network->network_bytes(network_limits(sizes, options)) + clip;
    return caches + graphs + descriptions + likelihoods + clip + ours;
}

Session::Session(std::shared_ptr<const SharedModel> model, const SessionOptions& options)
    : model_(std::move(model)),
      options_(checked(options)),
      longest_samples_(kLimits.longest_samples(options)),
      recognizer_(model_, options.threads) {
    if (model_->network == nullptr) return;
    network_ = model_->network->make_network(network_limits(model_->parameters, options));
}

std::string_view Session::family() const noexcept { return "whisper"; }

void Session::prepare(const TaskRequest& request) {
    check_segment(request.audio, longest_samples_);
    static_cast<void>(read_options(request.options, model_->parameters));
}

std::size_t Session::private_bytes() const noexcept {
    const auto clip = static_cast<std::size_t>(longest_samples_) * sizeof(float);
    return recognizer_.bytes() + clip + (network_ ? network_->bytes() + clip : 0);
}

void Session::read(const TaskRequest& request, Clip& clip) const {
    const AudioSegment& audio = request.audio;
    clip.seconds = static_cast<double>(audio.count) / static_cast<double>(kSampleRate);
    clip.samples.assign(static_cast<std::size_t>(std::max(audio.count, kShortestSamples)), 0.0F);
    const std::span<float> recorded =
        std::span(clip.samples).first(static_cast<std::size_t>(audio.count));
    copy_samples(audio, recorded);
}

TaskResult Session::run(const TaskRequest& request) { return run_alone(*this, request); }

TaskResult Session::run_stock(const TaskRequest& request, Recognizer::Context context) {
    read(request, clip_);
    const RequestOptions options = read_options(request.options, model_->parameters);
    return recognizer_.run(clip_.samples, clip_.seconds, options, context, request.cancel);
}

std::vector<TaskOutcome> Session::run_batch(std::span<const TaskRequest> requests,
                                            const OnResult& on_result) {
    check_batch(requests.size(), options_.max_batch);
    std::vector<TaskOutcome> outcomes(requests.size());
    const auto end = [&](std::size_t index, TaskOutcome outcome) {
        outcomes[index] = std::move(outcome);
        if (on_result) on_result(index, outcomes[index]);
    };
    std::vector<std::size_t> ours;
    struct Handed {
        std::size_t index;
        Recognizer::Context context;
    };
    std::vector<Handed> stock;
    for (std::size_t index = 0; index < requests.size(); ++index) {
        std::optional<Error> refusal;
        try {
            prepare(requests[index]);
            const bool words = read_options(requests[index].options, model_->parameters).words;
            if (network_ && !words) {
                ours.push_back(index);
            } else {
                stock.push_back({index, Recognizer::Context::kReducedFirst});
            }
        } catch (...) {
            refusal = error_from_current_exception();
        }
        if (refusal) end(index, *std::move(refusal));
    }
    if (!ours.empty()) {
        Batch batch(
            {.model = *model_,
             .network = *network_,
             .rows = static_cast<std::size_t>(network_limits(model_->parameters, options_).rows),
             .read = [this](const TaskRequest& request, Clip& clip) { read(request, clip); },
             .end = end,
             .hand_back =
                 [&](std::size_t index) { stock.push_back({index, Recognizer::Context::kFull}); }},
            requests);
        batch.run(ours);
    }
    for (const auto& [index, context] : stock) {
        std::optional<TaskOutcome> outcome;
        try {
            outcome = run_stock(requests[index], context);
        } catch (...) {
            outcome = error_from_current_exception();
        }
        end(index, *std::move(outcome));
    }
    return outcomes;
}

std::size_t Session::parallel_session_capacity() const noexcept { return kMaxParallelSessions; }

std::unique_ptr<IVoiceTaskSession> Session::create_parallel_session() const {
    return std::make_unique<Session>(model_, options_);
}

}  // namespace wavepool::whisper
