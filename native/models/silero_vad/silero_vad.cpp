#include "models/silero_vad/silero_vad.h"

#include <new>
#include <utility>

#include "framework/error.h"
#include "framework/gguf_file.h"
#include "models/silero_vad/session.h"
#include "models/silero_vad/state.h"
#include "models/silero_vad/stream_session.h"
#include "models/silero_vad/weights.h"

namespace wavepool::silero_vad {
namespace {

class VadModel final : public ILoadedModel {
  public:
    explicit VadModel(const GgufFile& file)
        : weights_(std::make_shared<const Weights>(load_weights(file))) {
        info_.family = "silero-vad";
        info_.task = TaskKind::kVad;
        info_.name = file.string("general.name");
        info_.weight_bytes = weights_->bytes();
        info_.native_batch = true;
        info_.window_samples = kWindowSamples;
        info_.stateful = true;
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
    std::shared_ptr<const Weights> weights_;
    ModelInfo info_;
};

}  // namespace

std::shared_ptr<const ILoadedModel> load(const std::filesystem::path& file) {
    try {
        return std::make_shared<const VadModel>(GgufFile(file));
    } catch (const std::bad_alloc&) {
        throw Error(ErrorCode::kInsufficientMemory, "silero-vad: no memory for the weights");
    }
}

}  // namespace wavepool::silero_vad
