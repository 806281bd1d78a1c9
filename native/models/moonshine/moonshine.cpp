#include "models/moonshine/moonshine.h"

#include <new>
#include <utility>

#include "framework/error.h"
#include "models/moonshine/session.h"
#include "models/moonshine/weights.h"

namespace wavepool::moonshine {
namespace {

class LoadedModel final : public ILoadedModel {
  public:
    explicit LoadedModel(std::shared_ptr<const Weights> weights)
        : info_{.family = "moonshine",
                .task = TaskKind::kAsr,
                .name = weights->name,
                .weight_bytes = weights->bytes(),
                .native_batch = true,
                .max_segment_seconds = kLongestSegmentSeconds},
          shared_(std::make_shared<const SharedModel>(
              SharedModel{.weights = weights, .detokenizer = Detokenizer(weights->pieces)})) {}

    [[nodiscard]] const ModelInfo& info() const noexcept override { return info_; }

    [[nodiscard]] std::unique_ptr<IVoiceTaskSession> create_session(
        const SessionOptions& options) const override {
        try {
            return std::make_unique<Session>(shared_, options);
        } catch (const std::bad_alloc&) {
            throw Error(ErrorCode::kInsufficientMemory, "creating a session");
        }
    }

  private:
    ModelInfo info_;
    std::shared_ptr<const SharedModel> shared_;
};

}  // namespace

std::shared_ptr<const ILoadedModel> load(const std::filesystem::path& file) {
    try {
        return std::make_shared<LoadedModel>(Weights::load(file));
    } catch (const std::bad_alloc&) {
        throw Error(ErrorCode::kInsufficientMemory, "loading weights");
    }
}

}  // namespace wavepool::moonshine
