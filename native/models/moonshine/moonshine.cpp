#include "models/moonshine/moonshine.h"

#include <new>
#include <utility>

#include "framework/error.h"
#include "framework/session_pool.h"
#include "framework/weight_cache.h"
#include "models/moonshine/session.h"
#include "models/moonshine/weights.h"

namespace wavepool::moonshine {
namespace {

constexpr const char* kFamily = "moonshine";

ModelInfo describe(const Weights& weights) {
    return {.family = kFamily,
            .task = TaskKind::kAsr,
            .name = weights.name,
            .weight_bytes = weights.bytes(),
            .native_batch = true,
            .max_segment_seconds = kLongestSegmentSeconds,
            .languages = {"en"},
            .option_names = {"suppressBlank"}};
}

class LoadedModel final : public ILoadedModel {
  public:
    explicit LoadedModel(const TensorSource& source) {
        const auto weights = cache_.get_or_load_shared<Weights>(
            {.component = kFamily, .device = "cpu", .storage = "f16+q8_0"},
            [&] { return Weights::load(source); });
        info_ = describe(*weights);
        shared_ = std::make_shared<const SharedModel>(
            SharedModel{.weights = weights, .detokenizer = Detokenizer(weights->pieces)});
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
    try {
        return std::make_shared<LoadedModel>(source);
    } catch (const std::bad_alloc&) {
        throw Error(ErrorCode::kInsufficientMemory, "loading weights");
    }
}

ModelPlan plan(const TensorSource& source, const SessionOptions& options) {
    const auto weights = Weights::plan(source);
    return {.info = describe(*weights),
            .capacity = kMaxParallelSessions,
            .session_bytes = Session::bytes(*weights, options)};
}

}  // namespace wavepool::moonshine
