#include "models/whisper/decoding/recognizer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "framework/error.h"
#include "models/whisper/decoding/attempt.h"
#include "models/whisper/decoding/guards.h"

namespace wavepool::whisper {
namespace {

/// How long an idle thread of the pool polls before it sleeps, from 0 to 100. With 50 the threads
/// stay awake between two graphs of one decode step.
constexpr int kThreadpoolPolling = 50;

}  // namespace

Recognizer::Recognizer(std::shared_ptr<const SharedModel> model, int threads)
    : model_(std::move(model)), threads_(threads) {
    ggml_threadpool_params params = ggml_threadpool_params_default(threads_);
    params.poll = kThreadpoolPolling;
    construct_backend([&] {
        pool_.reset(ggml_threadpool_new(&params));
        if (pool_) state_ = library::make_state(*model_->context);
    });
    if (!state_) throw Error(ErrorCode::kInsufficientMemory, "creating a session");
    library::use(
        *state_, pool_.get(),
        [](void* data) {
            const auto& self = *static_cast<const Recognizer*>(data);
            return self.stuck_.load(std::memory_order_relaxed) ||
                   (self.cancel_ != nullptr && self.cancel_->cancelled());
        },
        this);
}

Recognizer::~Recognizer() = default;

std::size_t Recognizer::bytes() const { return library::bytes(*state_); }

TaskResult Recognizer::run(std::span<const float> samples, double seconds,
                           const RequestOptions& options, Context context,
                           const CancelToken& cancel) {
    const Attempt::Setting setting{
        .model = *model_, .state = *state_, .threads = threads_, .stuck = stuck_};
    cancel_ = &cancel;
    struct Reset {
        Recognizer& self;
        ~Reset() {
            self.cancel_ = nullptr;
            self.stuck_ = false;
        }
    } const reset{*this};

    const int reduced = audio_frames(static_cast<std::int64_t>(samples.size()));
    if (context == Context::kReducedFirst && reduced < kAudioContext) {
        Attempt attempt(setting, options, samples, reduced, Attempt::Effort::kOnce);
        attempt.run(cancel);
        if (attempt.trusted()) return attempt.result(seconds);
        stuck_ = false;
    }
    Attempt attempt(setting, options, samples, static_cast<int>(kAudioContext),
                    Attempt::Effort::kUntilGood);
    attempt.run(cancel);
    return attempt.result(seconds);
}

}  // namespace wavepool::whisper
