#include "models/whisper/family.h"

#include <new>
#include <string>
#include <utility>

#include "framework/compute/backend.h"
#include "framework/error.h"
#include "framework/models/weight_cache.h"
#include "framework/sessions/session_pool.h"
#include "models/whisper/checkpoint/checkpoint.h"
#include "models/whisper/checkpoint/checkpoint_stream.h"
#include "models/whisper/session.h"

#ifdef WAVEPOOL_PACKED_KERNELS
#include "models/whisper/packed/packed_network.h"
#endif

namespace wavepool::whisper {
namespace {

constexpr const char* kFamily = "whisper";

/// The name of a model, by its sizes.
std::string name_of(const Parameters& sizes) {
    std::string name = "whisper-";
    switch (sizes.audio_layers) {
        case 4:
            name += "tiny";
            break;
        case 6:
            name += "base";
            break;
        case 12:
            name += "small";
            break;
        case 24:
            name += "medium";
            break;
        case 32:
            name += sizes.vocabulary > 51865 ? "large-v3" : "large";
            if (sizes.text_layers == 4) name += "-turbo";
            break;
        default:
            name += std::to_string(sizes.audio_layers) + "-layers";
    }
    return sizes.multilingual() ? name : name + ".en";
}

ModelInfo describe(const Checkpoint& checkpoint, const NetworkWeights* network) {
    const Parameters& sizes = checkpoint.parameters();
    const std::size_t packed = network == nullptr ? 0 : network->bytes();
    return {.family = kFamily,
            .task = TaskKind::kAsr,
            .name = name_of(sizes),
            .weight_bytes = checkpoint.weight_bytes() + packed,
            .native_batch = true,
            .max_segment_seconds = kLongestSegmentSeconds,
            .languages = language_codes(sizes),
            .option_names = option_names(sizes)};
}

/// whisper.cpp goes on without a buffer that it did not get, so that has to be known before.
void require_memory(std::size_t bytes) {
    const BufferPtr probe(ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), bytes));
    if (!probe) throw Error(ErrorCode::kInsufficientMemory, "loading weights");
}

/// Null where this build has no kernels of our own, and for what these refuse.
std::shared_ptr<const NetworkWeights> load_network_weights(
    [[maybe_unused]] const Checkpoint& checkpoint, [[maybe_unused]] Allocation allocation) {
#ifdef WAVEPOOL_PACKED_KERNELS
    return load_packed_network_weights(checkpoint, allocation);
#else
    return nullptr;
#endif
}

std::shared_ptr<const SharedModel> load_shared(const Checkpoint& checkpoint, Kernels kernels) {
    checkpoint.check_numbers();
    require_memory(checkpoint.weight_bytes());
    CheckpointStream stream(checkpoint);
    whisper_model_loader loader = stream.loader();
    library::ContextPtr context;
    construct_backend([&] { context = library::load(loader); });
    if (!context) {
        throw Error(ErrorCode::kModelLoadFailed,
                    checkpoint.source().description() + ": whisper.cpp could not load it");
    }
    std::shared_ptr<const NetworkWeights> network;
    if (kernels == Kernels::kBest) network = load_network_weights(checkpoint, Allocation::kReal);
    return std::make_shared<const SharedModel>(checkpoint, std::move(context), std::move(network));
}

class LoadedModel final : public ILoadedModel {
  public:
    LoadedModel(const Checkpoint& checkpoint, Kernels kernels)
        : shared_(cache_.get_or_load_shared<SharedModel>(
              {.component = kFamily,
               .device = "cpu",
               .storage = kernels == Kernels::kStock ? "ggml" : "best"},
              [&] { return load_shared(checkpoint, kernels); })),
          info_(describe(checkpoint, shared_->network.get())) {}

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
    WeightCache cache_;
    std::shared_ptr<const SharedModel> shared_;
    ModelInfo info_;
};

}  // namespace

std::shared_ptr<const ILoadedModel> load(const TensorSource& source) {
    return load(source, Kernels::kBest);
}

std::shared_ptr<const ILoadedModel> load(const TensorSource& source, Kernels kernels) {
    try {
        return std::make_shared<LoadedModel>(Checkpoint(source), kernels);
    } catch (const std::bad_alloc&) {
        throw Error(ErrorCode::kInsufficientMemory, "loading weights");
    }
}

ModelPlan plan(const TensorSource& source, const SessionOptions& options) {
    const Checkpoint checkpoint(source);
    const auto network = load_network_weights(checkpoint, Allocation::kPlanned);
    return {.info = describe(checkpoint, network.get()),
            .capacity = kMaxParallelSessions,
            .session_bytes = Session::bytes(checkpoint.parameters(), network.get(), options)};
}

}  // namespace wavepool::whisper
