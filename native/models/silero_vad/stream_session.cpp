#include "models/silero_vad/stream_session.h"

#include <string>
#include <utility>

#include "framework/error.h"

namespace wavepool::silero_vad {
namespace {

constexpr auto kWindow = static_cast<std::int64_t>(kWindowSamples);

[[noreturn]] void refuse(const std::string& reason) {
    throw Error(ErrorCode::kInvalidRequest, "silero-vad: " + reason);
}

SessionOptions one_offline(SessionOptions options) {
    options.mode = RunMode::kOffline;
    options.max_batch = 1;
    return options;
}

}  // namespace

VadStreamSession::VadStreamSession(std::shared_ptr<const Weights> weights,
                                   const SessionOptions& options)
    : weights_(std::move(weights)), options_(options), offline_(weights_, one_offline(options)) {
    if (options.mode != RunMode::kStreaming) refuse("a stream session is for the streaming mode");
}

void VadStreamSession::prepare(const TaskRequest& request) {
    if (!request.options.empty())
        refuse("unknown option \"" + request.options.begin()->first + "\"");
}

std::size_t VadStreamSession::private_bytes() const noexcept {
    const std::size_t held = stream_ ? sizeof(VadState) + stream_->store->resident_bytes() : 0;
    return sizeof(*this) - sizeof(offline_) + offline_.private_bytes() + held;
}

std::unique_ptr<IVoiceTaskSession> VadStreamSession::create_parallel_session() const {
    return std::make_unique<VadStreamSession>(weights_, options_);
}

void VadStreamSession::start_stream(const TaskRequest& request) {
    if (stream_) refuse("a stream is open already");
    prepare(request);
    stream_.emplace();
    stream_->cancel = request.cancel;
}

VadStreamSession::Stream VadStreamSession::take_stream() {
    if (!stream_) refuse("no stream has been started");
    return *std::exchange(stream_, std::nullopt);
}

TaskResult VadStreamSession::run(const Stream& stream, std::int64_t count) {
    TaskRequest request;
    request.audio = {stream.store, stream.store->begin(), count};
    request.state = stream.state;
    request.cancel = stream.cancel;
    TaskResult result = offline_.run(request);
    stream.store->release_before(request.audio.start + count);
    return result;
}

std::optional<TaskResult> VadStreamSession::process_audio_chunk(std::span<const float> samples) {
    Stream stream = take_stream();
    stream.store->append(samples);
    std::optional<TaskResult> result;
    const std::int64_t held = stream.store->end() - stream.store->begin();
    if (held >= kWindow) result = run(stream, held - held % kWindow);
    stream_ = std::move(stream);
    return result;
}

TaskResult VadStreamSession::finish_stream() {
    const Stream stream = take_stream();
    const std::int64_t held = stream.store->end() - stream.store->begin();
    return held == 0 ? TaskResult{} : run(stream, held);
}

}  // namespace wavepool::silero_vad
