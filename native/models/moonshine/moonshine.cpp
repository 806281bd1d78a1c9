#include "models/moonshine/moonshine.h"

#include <new>
#include <utility>

#include "framework/error.h"
#include "framework/models/weight_cache.h"
#include "framework/sessions/session_pool.h"
#include "models/moonshine/session.h"

namespace wavepool::moonshine {
namespace {

constexpr const char* kFamily = "moonshine";

ModelInfo describe(const Checkpoint& checkpoint) {
    return {.family = kFamily,
            .task = TaskKind::kAsr,
            .name = checkpoint.name(),
            .weight_bytes = checkpoint.bytes(),
            .native_batch = true,
            .max_segment_seconds = kLongestSegmentSeconds,
            .languages = {"en"},
            .option_names = {"suppressBlank"}};
}

class LoadedModel final : public ILoadedModel {
  public:
    LoadedModel(const TensorSource& source, Kernels kernels) {
        const char* storage = kernels == Kernels::kStock ? "f16+q8_0" : "best";
        const auto checkpoint = cache_.get_or_load_shared<Checkpoint>(
            {.component = kFamily, .device = "cpu", .storage = storage},
            [&] { return load_checkpoint(source, kernels, Allocation::kReal); });
        info_ = describe(*checkpoint);
        shared_ = std::make_shared<const SharedModel>(SharedModel{
            .checkpoint = checkpoint, .detokenizer = Detokenizer(checkpoint->pieces())});
    }

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
    WeightCache cache_;
    std::shared_ptr<const SharedModel> shared_;
};

}  // namespace

std::shared_ptr<const ILoadedModel> load(const TensorSource& source) {
    return load(source, Kernels::kBest);
}

std::shared_ptr<const ILoadedModel> load(const TensorSource& source, Kernels kernels) {
    try {
        return std::make_shared<LoadedModel>(source, kernels);
    } catch (const std::bad_alloc&) {
        throw Error(ErrorCode::kInsufficientMemory, "loading weights");
    }
}

ModelPlan plan(const TensorSource& source, const SessionOptions& options) {
    const auto checkpoint = load_checkpoint(source, Kernels::kBest, Allocation::kPlanned);
    return {.info = describe(*checkpoint),
            .capacity = kMaxParallelSessions,
            .session_bytes = Session::bytes(*checkpoint, options)};
}

}  // namespace wavepool::moonshine
