#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/sessions/session.h"
#include "framework/tensors/tensor_source.h"

namespace wavepool {

struct SessionOptions {
    RunMode mode = RunMode::kOffline;
    int threads = 1;                 ///< compute threads of one session, 1…64
    std::size_t max_batch = 1;       ///< most items in one native batch
    double max_segment_seconds = 0;  ///< longest segment that must fit; 0 = the model's own limit
};

struct ModelInfo {
    std::string family;
    TaskKind task = TaskKind::kAsr;
    std::string name;              ///< general.name of the file
    std::size_t weight_bytes = 0;  ///< resident bytes of the weights
    bool native_batch = false;
    double max_segment_seconds = 0;         ///< longest segment it accepts; 0 = unbounded
    std::int64_t window_samples = 0;        ///< vad: samples per probability; 0 otherwise
    bool stateful = false;                  ///< requests carry a TaskState from create_state()
    std::vector<std::string> languages;     ///< asr: ISO 639-1, what it can recognize
    std::vector<std::string> option_names;  ///< what TaskRequest::options may hold
};

/// Immutable weights of one checkpoint. Thread-safe after construction. Sessions share ownership of
/// the weights they use, so a model may be released while sessions still run.
class ILoadedModel {
  public:
    virtual ~ILoadedModel() = default;

    [[nodiscard]] virtual const ModelInfo& info() const noexcept = 0;

    /// The primary session for these options. Throws Error{kInvalidRequest | kInsufficientMemory}.
    [[nodiscard]] virtual std::unique_ptr<IVoiceTaskSession> create_session(
        const SessionOptions& options) const = 0;

    /// A fresh state for a new input; null for tasks without state.
    [[nodiscard]] virtual std::shared_ptr<TaskState> create_state() const { return nullptr; }
};

/// What a model will need, as computed before it is loaded.
struct ModelPlan {
    ModelInfo info;
    std::size_t capacity = 1;  ///< sessions that the family supports for the options, at most 16
    std::size_t session_bytes = 0;  ///< private_bytes() of one session
};

/// One row of models/families.cpp: how a family is recognized, planned and loaded.
struct Family {
    std::string_view name;  ///< general.architecture in the metadata
    TaskKind task;
    /// Throws Error{kModelFileInvalid | kModelLoadFailed | kInsufficientMemory}; validates every
    /// name and shape first.
    std::shared_ptr<const ILoadedModel> (*load)(const TensorSource& source);
    /// Computes the plan from metadata, names and shapes alone: reads no weights and makes no
    /// session. Throws Error{kModelFileInvalid | kInvalidRequest}.
    ModelPlan (*plan)(const TensorSource& source, const SessionOptions& options);
    /// Tells by the names of its tensors whether a source without an architecture belongs to this
    /// family. Where this is null, none does.
    bool (*recognizes)(const TensorSource& source) = nullptr;
};

/// Opens a checkpoint (open_tensor_source()) and loads it with its family: the one that its
/// metadata call general.architecture or, where they do not, that recognizes its tensors. Throws
/// Error{kInputNotFound | kModelFileInvalid | kModelLoadFailed | kInsufficientMemory}.
[[nodiscard]] std::shared_ptr<const ILoadedModel> load_model(const std::filesystem::path& file,
                                                             std::span<const Family> families);

/// What load_model() and create_session() would need. Throws
/// Error{kInputNotFound | kModelFileInvalid | kInvalidRequest | kInsufficientMemory}.
[[nodiscard]] ModelPlan plan_model(const std::filesystem::path& file, const SessionOptions& options,
                                   std::span<const Family> families);

}  // namespace wavepool
