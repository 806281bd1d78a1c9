#include "tests/fake_family.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "framework/gguf_file.h"
#include "tests/faults.h"
#include "tests/planted_defects.h"

namespace wavepool::fake {
namespace {

constexpr std::int64_t kWindowSamples = 512;
constexpr std::int64_t kTokenSamples = 1600;

struct Weights {
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

void require_running(const TaskRequest& request) {
    if (request.cancel.cancelled()) throw Error(ErrorCode::kCancelled, "the fake was cancelled");
}

void apply_run_faults(const TaskRequest& request) {
    if (has_fault(request, "abort")) std::abort();
    if (has_fault(request, "run")) throw Error(ErrorCode::kInternal, "fault: run");
    if (has_fault(request, "hang")) hang_until(request.cancel);
    if (has_fault(request, "gate")) wait_at_gate(request.cancel);
    require_running(request);
}

/// Everything but the interfaces, which the classes below choose.
class Session : public IVoiceTaskSession, public IParallelVoiceTaskSessionFactory {
  public:
    Session(std::shared_ptr<const Weights> weights, SessionOptions options)
        : weights_(std::move(weights)), options_(options) {}

    [[nodiscard]] std::string_view family() const noexcept override {
        return weights_->info.family;
    }
    [[nodiscard]] TaskKind task_kind() const noexcept override { return weights_->info.task; }
    [[nodiscard]] RunMode run_mode() const noexcept override { return options_.mode; }
    [[nodiscard]] std::size_t private_bytes() const noexcept override { return scratch_bytes_; }
    [[nodiscard]] std::size_t parallel_session_capacity() const noexcept override {
        return weights_->capacity;
    }

    void prepare(const TaskRequest& request) override {
        if (has_fault(request, "prepare"))
            throw Error(ErrorCode::kInvalidRequest, "fault: prepare");
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
        TaskResult result =
            task_kind() == TaskKind::kAsr ? transcribe(request.audio.copy()) : detect(request);
        const bool first = std::exchange(first_run_, false);
        if (first && fault_armed("first-run")) result.text += " first";
        const std::string own = result.text;
        if (fault_armed("leak")) result.text += previous_text_;
        previous_text_ = own;
        defects_.apply(result);
        return result;
    }

    [[nodiscard]] std::size_t most_items() const { return options_.max_batch; }

    template <typename Concrete>
    [[nodiscard]] std::unique_ptr<IVoiceTaskSession> clone() const {
        if (fault_armed("clone")) throw Error(ErrorCode::kModelLoadFailed, "fault: clone");
        return std::make_unique<Concrete>(weights_, options_);
    }

  private:
    static TaskResult transcribe(std::span<const float> samples) {
        TaskResult result;
        const std::uint64_t hash = checksum(samples);
        result.text = "fake " + hex(hash) + " " + std::to_string(samples.size());
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
    const std::size_t scratch_bytes_ = 4096;
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

/// Counts what it is given; the final result is the text of the whole stream.
class StreamingSession final : public Session, public IStreamingVoiceTaskSession {
  public:
    using Session::Session;

    void start_stream(const TaskRequest&) override { reset(); }
    [[nodiscard]] std::optional<TaskResult> process_audio_chunk(
        std::span<const float> samples) override {
        if (fault_armed("run")) throw Error(ErrorCode::kInternal, "fault: run");
        ++chunks_;
        heard_ += samples.size();
        return std::nullopt;
    }
    [[nodiscard]] TaskResult finish_stream() override {
        TaskResult result;
        result.text = "fake " + std::to_string(chunks_) + " " + std::to_string(heard_);
        reset();
        return result;
    }
    void reset() noexcept override { chunks_ = heard_ = 0; }
    [[nodiscard]] std::unique_ptr<IVoiceTaskSession> create_parallel_session() const override {
        return clone<StreamingSession>();
    }

  private:
    std::size_t chunks_ = 0;
    std::size_t heard_ = 0;
};

class Model final : public ILoadedModel {
  public:
    explicit Model(std::shared_ptr<const Weights> weights) : weights_(std::move(weights)) {}

    [[nodiscard]] const ModelInfo& info() const noexcept override { return weights_->info; }
    [[nodiscard]] std::unique_ptr<IVoiceTaskSession> create_session(
        const SessionOptions& options) const override {
        if (options.threads < 1 || options.threads > 64 || options.max_batch < 1) {
            throw Error(ErrorCode::kInvalidRequest, "a session has 1 to 64 threads and a batch");
        }
        if (options.mode == RunMode::kStreaming) {
            return std::make_unique<StreamingSession>(weights_, options);
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

template <TaskKind kTask>
std::shared_ptr<const ILoadedModel> load(const std::filesystem::path& path) {
    if (fault_armed("load")) throw Error(ErrorCode::kModelLoadFailed, "fault: load");
    const GgufFile file(path);
    auto weights = std::make_shared<Weights>();
    weights->capacity = static_cast<std::size_t>(file.integer("fake.capacity"));
    weights->weight = file.f32("fake.weight", std::array<std::int64_t, 1>{4});
    const bool vad = kTask == TaskKind::kVad;
    weights->info = {
        .family = file.string("general.architecture"),
        .task = kTask,
        .name = file.string("general.name"),
        .weight_bytes = weights->weight.size() * sizeof(float),
        .native_batch = file.integer("fake.native_batch") != 0,
        .max_segment_seconds = file.number("fake.max_segment_seconds"),
        .window_samples = vad ? kWindowSamples : 0,
        .stateful = vad,
    };
    return std::make_shared<Model>(std::move(weights));
}

}  // namespace

std::span<const Family> families() {
    static constexpr std::array kFamilies{
        Family{"fake", TaskKind::kAsr, &load<TaskKind::kAsr>},
        Family{"fake-vad", TaskKind::kVad, &load<TaskKind::kVad>},
    };
    return kFamilies;
}

}  // namespace wavepool::fake
