#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/session.h"

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
    double max_segment_seconds = 0;   ///< longest segment it accepts; 0 = unbounded
    std::int64_t window_samples = 0;  ///< vad: samples per probability; 0 otherwise
    bool stateful = false;            ///< requests carry a TaskState from create_state()
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

/// One row of models/families.cpp: how a family is recognized (general.architecture of its GGUF)
/// and loaded.
struct Family {
    std::string_view name;
    TaskKind task;
    /// Throws Error{kModelFileInvalid | kModelLoadFailed | kInsufficientMemory}; validates every
    /// name and shape first.
    std::shared_ptr<const ILoadedModel> (*load)(const std::filesystem::path& file);
};

/// Reads the architecture from the file's metadata and loads it with the family of that name.
/// Throws Error{kInputNotFound | kModelFileInvalid | kModelLoadFailed | kInsufficientMemory}.
[[nodiscard]] std::shared_ptr<const ILoadedModel> load_model(const std::filesystem::path& file,
                                                             std::span<const Family> families);

}  // namespace wavepool
