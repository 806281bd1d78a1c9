#include "tests/support/fake_family.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "framework/tensors/tensor_source.h"
#include "tests/support/fake_language.h"
#include "tests/support/fake_stream.h"
#include "tests/support/faults.h"
#include "tests/support/planted_defects.h"

namespace wavepool::fake {
namespace {

constexpr std::int64_t kWindowSamples = 512;
constexpr std::int64_t kTokenSamples = 1600;
constexpr std::size_t kScratchBytes = 4096;

constexpr int kMostThreadsInParallel = 8;

std::atomic<int> live_weights = 0;
std::atomic<int> live_sessions = 0;
std::atomic<int> sessions_made = 0;

/// Counts its owner for as long as that lives.
class Counted {
  public:
    explicit Counted(std::atomic<int>& count) : count_(count) { ++count_; }
    ~Counted() { --count_; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

  private:
    std::atomic<int>& count_;
};

struct Weights {
    Counted live{live_weights};
    ModelInfo info;
    std::size_t capacity = 1;
    std::vector<float> weight;
};

struct FakeState final : TaskState {
    float previous = 0;
};

std::uint64_t checksum(std::span<const float> samples) {
    std::uint64_t hash = 14695981039346656037ULL;
    for (const float sample : samples) {
        std::uint32_t bits;
        std::memcpy(&bits, &sample, sizeof(bits));
        hash = (hash ^ bits) * 1099511628211ULL;
    }
    return hash;
}

std::string hex(std::uint64_t value) {
    std::string text(16, '0');
    for (auto digit = text.rbegin(); value != 0; ++digit, value >>= 4) {
        *digit = "0123456789abcdef"[value & 15];
    }
    return text;
}

bool has_fault(const TaskRequest& request, std::string_view name) {
    const auto option = request.options.find("fault");
    const auto* asked =
        option == request.options.end() ? nullptr : std::get_if<std::string>(&option->second);
    return (asked != nullptr && *asked == name) || fault_armed(name);
}

double rank(const TaskRequest& request) {
    const auto option = request.options.find("rank");
    const auto* value =
        option == request.options.end() ? nullptr : std::get_if<double>(&option->second);
    return value == nullptr ? 0 : *value;
}

bool wants_calls(const TaskRequest& request) {
    const auto option = request.options.find("calls");
    const auto* value =
        option == request.options.end() ? nullptr : std::get_if<bool>(&option->second);
    return value != nullptr && *value;
}

void require_running(const TaskRequest& request) {
    if (request.cancel.cancelled()) throw Error(ErrorCode::kCancelled, "the fake was cancelled");
}

void apply_run_faults(const TaskRequest& request) {
    if (has_fault(request, "abort")) std::abort();
    if (has_fault(request, "run")) throw Error(ErrorCode::kInternal, "fault: run");
    if (has_fault(request, "hang")) hang_until(request.cancel);
    if (has_fault(request, "gate")) wait_at_gate("gate", request.cancel);
    require_running(request);
}

/// Everything but the interfaces, which the classes below choose.
class Session : public IVoiceTaskSession, public IParallelVoiceTaskSessionFactory {
  public:
    Session(std::shared_ptr<const Weights> weights, SessionOptions options)
        : weights_(std::move(weights)), options_(options) {}
    ~Session() override { wait_at_gate("destroy-gate"); }

    [[nodiscard]] std::string_view family() const noexcept override {
        return disguise_ == "clone-family" ? "another" : std::string_view(weights_->info.family);
    }
    [[nodiscard]] TaskKind task_kind() const noexcept override {
        const TaskKind kind = weights_->info.task;
        if (disguise_ != "clone-task") return kind;
        return kind == TaskKind::kAsr ? TaskKind::kVad : TaskKind::kAsr;
    }
    [[nodiscard]] RunMode run_mode() const noexcept override {
        if (disguise_ != "clone-mode") return options_.mode;
        return options_.mode == RunMode::kOffline ? RunMode::kStreaming : RunMode::kOffline;
    }
    [[nodiscard]] std::size_t private_bytes() const noexcept override { return scratch_bytes_; }
    [[nodiscard]] std::size_t parallel_session_capacity() const noexcept override {
        return options_.threads > kMostThreadsInParallel ? 1 : weights_->capacity;
    }

    void prepare(const TaskRequest& request) override {
        if (has_fault(request, "prepare"))
            throw Error(ErrorCode::kInvalidRequest, "fault: prepare");
        if (has_fault(request, "prepare-gate")) wait_at_gate("prepare-gate", request.cancel);
        const AudioSegment& audio = request.audio;
        if (!audio.store) throw Error(ErrorCode::kInvalidRequest, "the request has no audio");
        if (audio.count == 0) throw Error(ErrorCode::kInputEmpty, "the segment is empty");
        if (audio.count < 0 || audio.start < audio.store->begin() ||
            audio.count > audio.store->end() - audio.start) {
            throw Error(ErrorCode::kInvalidRequest, "the segment is not resident");
        }
        const double limit = weights_->info.max_segment_seconds;
        if (limit > 0 && static_cast<double>(audio.count) > limit * kSampleRate) {
            throw Error(ErrorCode::kInputTooLarge, "the segment is too long");
        }
        if (task_kind() == TaskKind::kVad) {
            if (audio.count % kWindowSamples != 0) {
                throw Error(ErrorCode::kInvalidRequest, "the segment is not whole windows");
            }
            if (dynamic_cast<FakeState*>(request.state.get()) == nullptr) {
                throw Error(ErrorCode::kInvalidRequest, "the request has no state of this family");
            }
        }
    }

  protected:
    [[nodiscard]] TaskResult compute(const TaskRequest& request) {
        apply_run_faults(request);
        TaskResult result = task_kind() == TaskKind::kAsr ? transcribe(request) : detect(request);
        const bool first = std::exchange(first_run_, false);
        if (first && fault_armed("first-run")) result.text += " first";
        ++calls_;
        if (wants_calls(request)) {
            result.text += " #" + std::to_string(number_) + "." + std::to_string(calls_);
        }
        const std::string own = result.text;
        if (fault_armed("leak")) result.text += previous_text_;
        previous_text_ = own;
        defects_.apply(result);
        return result;
    }

    [[nodiscard]] std::size_t most_items() const { return options_.max_batch; }

    template <typename Concrete>
    [[nodiscard]] std::unique_ptr<IVoiceTaskSession> clone() const {
        wait_at_gate("clone-gate");
        if (fault_armed("clone")) throw Error(ErrorCode::kModelLoadFailed, "fault: clone");
        auto made = std::make_unique<Concrete>(weights_, options_);
        if (++clones_ != 2) return made;
        if (fault_armed("second-clone")) {
            throw Error(ErrorCode::kModelLoadFailed, "fault: second clone");
        }
        if (fault_armed("null-clone")) return nullptr;
        for (const std::string_view other : {"clone-family", "clone-task", "clone-mode"}) {
            if (fault_armed(other)) made->disguise_ = other;
        }
        return made;
    }

  private:
    [[nodiscard]] TaskResult transcribe(const TaskRequest& request) const {
        const std::vector<float> samples = request.audio.copy();
        TaskResult result;
        const std::uint64_t hash = checksum(samples);
        result.text = "fake " + hex(hash) + " " + std::to_string(samples.size());
        speak(weights_->info.languages, request, hash, result);
        for (std::size_t i = 0; i < samples.size(); i += kTokenSamples) {
            result.tokens.push_back(static_cast<std::int32_t>((hash + i) % 32768));
        }
        return result;
    }

    static TaskResult detect(const TaskRequest& request) {
        const std::vector<float> samples = request.audio.copy();
        auto& state = dynamic_cast<FakeState&>(*request.state);
        TaskResult result;
        float previous = state.previous;
        for (std::size_t i = 0; i < samples.size(); i += kWindowSamples) {
            float sum = 0;
            for (std::size_t j = i; j < i + kWindowSamples; ++j) sum += std::abs(samples[j]);
            const float loudness = std::min(1.0F, sum / kWindowSamples * 8);
            previous = 0.25F * previous + 0.75F * loudness;
            result.probabilities.push_back(previous);
        }
        state.previous = previous;
        return result;
    }

    const std::shared_ptr<const Weights> weights_;
    const SessionOptions options_;
    const std::size_t scratch_bytes_ = kScratchBytes;
    const Counted live_{live_sessions};
    const int number_ = ++sessions_made;
    int calls_ = 0;
    mutable int clones_ = 0;
    std::string_view disguise_;  ///< the fault that made it another than its primary
    bool first_run_ = true;
    std::string previous_text_;
    PlantedDefects defects_;
};

class OfflineSession : public Session, public IOfflineVoiceTaskSession {
  public:
    using Session::Session;

    [[nodiscard]] TaskResult run(const TaskRequest& request) override {
        prepare(request);
        return compute(request);
    }
    [[nodiscard]] std::unique_ptr<IVoiceTaskSession> create_parallel_session() const override {
        return clone<OfflineSession>();
    }
};

class BatchedSession final : public OfflineSession, public IBatchedOfflineVoiceTaskSession {
  public:
    using OfflineSession::OfflineSession;

    [[nodiscard]] std::size_t max_batch() const noexcept override { return most_items(); }

    [[nodiscard]] std::vector<TaskOutcome> run_batch(std::span<const TaskRequest> requests,
                                                     const OnResult& on_result) override {
        if (requests.size() > max_batch()) {
            throw Error(ErrorCode::kInvalidRequest, "the batch is too large");
        }
        if (fault_armed("run")) throw Error(ErrorCode::kInternal, "fault: run");
        std::vector<std::size_t> order(requests.size());
        std::iota(order.begin(), order.end(), 0);
        std::ranges::stable_sort(order, {}, [&](std::size_t i) { return rank(requests[i]); });

        std::vector<TaskOutcome> outcomes(requests.size());
        for (const std::size_t index : order) {
            try {
                outcomes[index] = run(requests[index]);
            } catch (...) {
                outcomes[index] = error_from_current_exception();
            }
            if (on_result) on_result(index, outcomes[index]);
        }
        if (fault_armed("lose-item")) outcomes.pop_back();
        return outcomes;
    }
    [[nodiscard]] std::unique_ptr<IVoiceTaskSession> create_parallel_session() const override {
        return clone<BatchedSession>();
    }
};

void check_options(const SessionOptions& options) {
    if (options.threads < 1 || options.threads > 64 || options.max_batch < 1) {
        throw Error(ErrorCode::kInvalidRequest, "a session has 1 to 64 threads and a batch");
    }
}

class Model final : public ILoadedModel {
  public:
    explicit Model(std::shared_ptr<const Weights> weights) : weights_(std::move(weights)) {}

    [[nodiscard]] const ModelInfo& info() const noexcept override { return weights_->info; }
    [[nodiscard]] std::unique_ptr<IVoiceTaskSession> create_session(
        const SessionOptions& options) const override {
        check_options(options);
        if (fault_armed("null-primary")) return nullptr;
        if (options.mode == RunMode::kStreaming) {
            return create_stream_session(
                std::make_unique<OfflineSession>(weights_, options),
                [weights = weights_] { return Model(weights).create_state(); });
        }
        if (weights_->info.native_batch) return std::make_unique<BatchedSession>(weights_, options);
        return std::make_unique<OfflineSession>(weights_, options);
    }
    [[nodiscard]] std::shared_ptr<TaskState> create_state() const override {
        return weights_->info.stateful ? std::make_shared<FakeState>() : nullptr;
    }

  private:
    std::shared_ptr<const Weights> weights_;
};

ModelInfo describe(const TensorSource& file, TaskKind task) {
    const bool vad = task == TaskKind::kVad;
    std::vector<std::string> languages = languages_of(file);
    std::vector<std::string> option_names{"suppressBlank", "fault", "calls", "rank"};
    if (!languages.empty())
        option_names.insert(option_names.end(), {"language", "translate", "prompt", "words"});
    return {
        .family = file.string("general.architecture"),
        .task = task,
        .name = file.string("general.name"),
        .weight_bytes = file.expect("fake.weight", std::array<std::int64_t, 1>{4}).bytes,
        .native_batch = file.integer("fake.native_batch") != 0,
        .max_segment_seconds = file.number("fake.max_segment_seconds"),
        .window_samples = vad ? kWindowSamples : 0,
        .stateful = vad,
        .languages = std::move(languages),
        .option_names = std::move(option_names),
    };
}

std::size_t capacity_of(const TensorSource& file, const SessionOptions& options) {
    const bool parallel = options.threads <= kMostThreadsInParallel;
    return parallel ? static_cast<std::size_t>(file.integer("fake.capacity")) : 1;
}

template <TaskKind kTask>
ModelPlan plan(const TensorSource& file, const SessionOptions& options) {
    check_options(options);
    return {.info = describe(file, kTask),
            .capacity = capacity_of(file, options),
            .session_bytes = kScratchBytes};
}

template <TaskKind kTask>
std::shared_ptr<const ILoadedModel> load(const TensorSource& file) {
    wait_at_gate("load-gate");
    if (fault_armed("load")) throw Error(ErrorCode::kModelLoadFailed, "fault: load");
    auto weights = std::make_shared<Weights>();
    weights->capacity = static_cast<std::size_t>(file.integer("fake.capacity"));
    weights->weight = file.f32("fake.weight", std::array<std::int64_t, 1>{4});
    weights->info = describe(file, kTask);
    return std::make_shared<Model>(std::move(weights));
}

}  // namespace

std::span<const Family> families() {
    static constexpr std::array kFamilies{
        Family{"fake", TaskKind::kAsr, &load<TaskKind::kAsr>, &plan<TaskKind::kAsr>},
        Family{"fake-vad", TaskKind::kVad, &load<TaskKind::kVad>, &plan<TaskKind::kVad>},
    };
    return kFamilies;
}

LiveObjects live_objects() { return {live_weights, live_sessions}; }

}  // namespace wavepool::fake
