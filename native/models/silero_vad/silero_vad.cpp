#include "models/silero_vad/silero_vad.h"

#include <new>
#include <utility>

#include "framework/error.h"
#include "framework/models/weight_cache.h"
#include "framework/sessions/session_pool.h"
#include "models/silero_vad/session.h"
#include "models/silero_vad/state.h"
#include "models/silero_vad/stream_session.h"
#include "models/silero_vad/weights.h"

namespace wavepool::silero_vad {
namespace {

constexpr const char* kFamily = "silero-vad";

ModelInfo describe(const TensorSource& source) {
    const bool named = source.metadata("general.name").has_value();
    return {.family = kFamily,
            .task = TaskKind::kVad,
            .name = named ? source.string("general.name") : kFamily,
            .weight_bytes = weight_bytes(),
            .native_batch = true,
            .window_samples = kWindowSamples,
            .stateful = true};
}

class VadModel final : public ILoadedModel {
  public:
    explicit VadModel(const TensorSource& source)
        : info_(describe(source)),
          weights_(
              cache_.get_or_load<Weights>({.component = kFamily, .device = "cpu", .storage = "f32"},
                                          [&] { return load_weights(source); })) {
        info_.weight_bytes = weights_->bytes();
    }

    [[nodiscard]] const ModelInfo& info() const noexcept override { return info_; }

    [[nodiscard]] std::unique_ptr<IVoiceTaskSession> create_session(
        const SessionOptions& options) const override {
        try {
            if (options.mode == RunMode::kStreaming) {
                return std::make_unique<VadStreamSession>(weights_, options);
            }
            return std::make_unique<VadSession>(weights_, options);
        } catch (const std::bad_alloc&) {
            throw Error(ErrorCode::kInsufficientMemory, "silero-vad: no memory for a session");
        }
    }

    [[nodiscard]] std::shared_ptr<TaskState> create_state() const override {
        return std::make_shared<VadState>();
    }

  private:
    ModelInfo info_;
    WeightCache cache_;
    std::shared_ptr<const Weights> weights_;
};

}  // namespace

std::shared_ptr<const ILoadedModel> load(const TensorSource& source) {
    try {
        return std::make_shared<const VadModel>(source);
    } catch (const std::bad_alloc&) {
        throw Error(ErrorCode::kInsufficientMemory, "silero-vad: no memory for the weights");
    }
}

ModelPlan plan(const TensorSource& source, const SessionOptions& options) {
    check_weights(source);
    return {.info = describe(source),
            .capacity = kMaxParallelSessions,
            .session_bytes = options.mode == RunMode::kStreaming ? VadStreamSession::bytes(options)
                                                                 : VadSession::bytes(options)};
}

bool recognizes(const TensorSource& source) { return has_weights(source); }

}  // namespace wavepool::silero_vad
