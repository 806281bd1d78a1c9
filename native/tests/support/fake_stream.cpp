#include "tests/support/fake_stream.h"

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/error.h"
#include "tests/support/faults.h"

namespace wavepool::fake {
namespace {

constexpr std::int64_t kWindowSamples = 512;

struct Stream {
    TaskRequest request;  ///< what the parts have in common: state, options, token
    std::shared_ptr<SampleStore> store = std::make_shared<SampleStore>();

    [[nodiscard]] std::int64_t held() const { return store->end() - store->begin(); }
};

void apply_faults(const TaskRequest& request) {
    const auto option = request.options.find("fault");
    const auto* asked =
        option == request.options.end() ? nullptr : std::get_if<std::string>(&option->second);
    const auto has = [&](std::string_view name) {
        return (asked != nullptr && *asked == name) || fault_armed(name);
    };
    if (has("abort")) std::abort();
    if (has("run")) throw Error(ErrorCode::kInternal, "fault: run");
    if (has("hang")) hang_until(request.cancel);
    if (has("gate")) wait_at_gate("gate", request.cancel);
    if (request.cancel.cancelled()) throw Error(ErrorCode::kCancelled, "the fake was cancelled");
}

class StreamSession final : public IVoiceTaskSession,
                            public IStreamingVoiceTaskSession,
                            public IParallelVoiceTaskSessionFactory {
  public:
    StreamSession(std::unique_ptr<IVoiceTaskSession> offline,
                  std::function<std::shared_ptr<TaskState>()> create_state)
        : offline_(std::move(offline)), create_state_(std::move(create_state)) {}

    [[nodiscard]] std::string_view family() const noexcept override { return offline_->family(); }
    [[nodiscard]] TaskKind task_kind() const noexcept override { return offline_->task_kind(); }
    [[nodiscard]] RunMode run_mode() const noexcept override { return offline_->run_mode(); }
    [[nodiscard]] std::size_t private_bytes() const noexcept override {
        return offline_->private_bytes();
    }
    [[nodiscard]] std::size_t parallel_session_capacity() const noexcept override {
        return factory().parallel_session_capacity();
    }
    [[nodiscard]] std::unique_ptr<IVoiceTaskSession> create_parallel_session() const override {
        std::unique_ptr<IVoiceTaskSession> offline = factory().create_parallel_session();
        if (!offline) return nullptr;
        return std::make_unique<StreamSession>(std::move(offline), create_state_);
    }

    void prepare(const TaskRequest& request) override {
        const auto option = request.options.find("fault");
        const bool asked =
            option != request.options.end() && option->second == OptionValue("prepare");
        if (asked || fault_armed("prepare")) {
            throw Error(ErrorCode::kInvalidRequest, "fault: prepare");
        }
    }

    void start_stream(const TaskRequest& request) override {
        if (stream_) throw Error(ErrorCode::kInvalidRequest, "a stream is open already");
        prepare(request);
        stream_.emplace(Stream{.request = request});
        stream_->request.state = create_state_();
    }

    [[nodiscard]] std::optional<TaskResult> process_audio_chunk(
        std::span<const float> samples) override {
        Stream stream = take_stream();
        apply_faults(stream.request);
        stream.store->append(samples);
        std::optional<TaskResult> result;
        if (task_kind() == TaskKind::kVad && stream.held() >= kWindowSamples) {
            result = run(stream, stream.held() - stream.held() % kWindowSamples);
        }
        stream_ = std::move(stream);
        return result;
    }

    [[nodiscard]] TaskResult finish_stream() override {
        const Stream stream = take_stream();
        apply_faults(stream.request);
        if (stream.held() == 0) return {};
        if (task_kind() == TaskKind::kVad) {
            const auto part = static_cast<std::size_t>(stream.held() % kWindowSamples);
            if (part > 0) stream.store->append(std::vector<float>(kWindowSamples - part, 0.0F));
        }
        return run(stream, stream.held());
    }

    void reset() noexcept override { stream_.reset(); }

  private:
    [[nodiscard]] const IParallelVoiceTaskSessionFactory& factory() const {
        return dynamic_cast<const IParallelVoiceTaskSessionFactory&>(*offline_);
    }
    Stream take_stream() {
        if (!stream_) throw Error(ErrorCode::kInvalidRequest, "no stream has been started");
        return *std::exchange(stream_, std::nullopt);
    }
    TaskResult run(const Stream& stream, std::int64_t count) {
        TaskRequest request = stream.request;
        request.audio = {stream.store, stream.store->begin(), count};
        TaskResult result = dynamic_cast<IOfflineVoiceTaskSession&>(*offline_).run(request);
        stream.store->release_before(request.audio.start + count);
        return result;
    }

    const std::unique_ptr<IVoiceTaskSession> offline_;
    const std::function<std::shared_ptr<TaskState>()> create_state_;
    std::optional<Stream> stream_;
};

}  // namespace

std::unique_ptr<IVoiceTaskSession> create_stream_session(
    std::unique_ptr<IVoiceTaskSession> offline,
    std::function<std::shared_ptr<TaskState>()> create_state) {
    return std::make_unique<StreamSession>(std::move(offline), std::move(create_state));
}

}  // namespace wavepool::fake
