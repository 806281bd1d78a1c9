#include "binding/audio_handle.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "audio/containers/frame_reader.h"
#include "binding/convert.h"
#include "binding/promise_task.h"

namespace wavepool::binding {
namespace {

/// The outcome of one step of decoding, for the JS thread.
struct Progress {
    bool ended = false;
    std::vector<audio::Warning> warnings;
};

/// Runs a job where this input is decoded.
void dispatch(Environment& environment, AudioCore& core, std::function<void()> job) {
    WorkerThreads& threads = core.own_thread ? *core.own_thread : environment.decode_threads();
    threads.post(std::move(job));
}

Napi::Value open(Napi::Env env, std::shared_ptr<AudioCore> core,
                 std::function<std::unique_ptr<audio::AudioInput>()> opener) {
    Environment& environment = Environment::of(env);
    environment.track(core);
    AudioCore& borrowed = *core;
    auto task = make_promise_task<Progress, AudioCore>(
        env, environment.js_thread(), std::move(core),
        [opener = std::move(opener)](AudioCore& core) {
            core.input = opener();
            return Progress{false, core.input->warnings()};
        },
        [](Napi::Env env, const Progress& progress, const std::shared_ptr<AudioCore>& core) {
            core->info = core->input->info();
            core->store = core->input->store();
            core->warnings = progress.warnings;
            return AudioHandle::wrap(env, Environment::of(env).audio_constructor, core);
        });
    return std::move(task).start(
        [&](auto job) { dispatch(environment, borrowed, std::move(job)); });
}

std::optional<int> read_channel(Napi::Value value) {
    if (value.IsUndefined()) return std::nullopt;
    const std::int64_t channel = read_integer(value, "channel");
    if (channel < 0 || channel >= audio::kMaxChannels)
        throw Error(ErrorCode::kInvalidRequest, "there is no channel " + std::to_string(channel));
    return static_cast<int>(channel);
}

SampleStore& open_store(const AudioCore& core) {
    if (!core.store) throw Error(ErrorCode::kInvalidRequest, "the input is closed");
    return *core.store;
}

}  // namespace

Napi::FunctionReference AudioHandle::define(Napi::Env env) {
    return Napi::Persistent(
        DefineClass(env, "AudioHandle",
                    {
                        InstanceMethod<&AudioHandle::decode_until>("decodeUntil"),
                        InstanceMethod<&AudioHandle::cancel_decode>("cancelDecode"),
                        InstanceMethod<&AudioHandle::append>("append"),
                        InstanceMethod<&AudioHandle::end>("end"),
                        InstanceMethod<&AudioHandle::release>("release"),
                        InstanceMethod<&AudioHandle::close>("close"),
                        InstanceAccessor<&AudioHandle::info>("info"),
                        InstanceAccessor<&AudioHandle::warnings>("warnings"),
                        InstanceAccessor<&AudioHandle::end_sample>("endSample"),
                        InstanceAccessor<&AudioHandle::ended>("ended"),
                        InstanceAccessor<&AudioHandle::resident_bytes>("residentBytes"),
                    }));
}

Napi::Value AudioHandle::open_file(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] {
        return open(info.Env(), std::make_shared<AudioCore>(),
                    [path = read_string(info[0], "path"), channel = read_channel(info[1])] {
                        return audio::open_file(path, channel);
                    });
    });
}

Napi::Value AudioHandle::open_pipe(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] {
        const auto descriptor = static_cast<int>(read_integer(info[0], "readDescriptor"));
        const auto stall_timeout_ms = static_cast<int>(read_integer(info[1], "stallTimeoutMs"));
        const std::optional<int> channel = read_channel(info[2]);
        auto core = std::make_shared<AudioCore>();
        core->own_thread = std::make_unique<WorkerThreads>(1);
        core->token = CancelToken::create();
        return open(info.Env(), core, [descriptor, stall_timeout_ms, channel, token = core->token] {
            return audio::open_pipe(descriptor, stall_timeout_ms, token, channel);
        });
    });
}

Napi::Value AudioHandle::decode_until(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&]() -> Napi::Value {
        const Napi::Env env = info.Env();
        const std::int64_t sample = read_integer(info[0], "sample");
        open_store(*core());
        if (core()->live) throw Error(ErrorCode::kInvalidRequest, "live audio is not decoded");
        if (core()->decoding) {
            throw Error(ErrorCode::kInvalidRequest, "the input is being decoded already");
        }
        Environment& environment = Environment::of(env);
        core()->token = CancelToken::create();
        auto task = make_promise_task<Progress, AudioCore>(
            env, environment.js_thread(), core(),
            [sample, token = core()->token](AudioCore& core) {
                if (token.cancelled()) throw Error(ErrorCode::kCancelled, "before decoding");
                const bool ended = core.input->decode_until(sample, token);
                return Progress{ended, core.input->warnings()};
            },
            [](Napi::Env env, const Progress& progress, const std::shared_ptr<AudioCore>& core) {
                core->ended = progress.ended;
                core->warnings = progress.warnings;
                return env.Undefined();
            },
            [](const std::shared_ptr<AudioCore>& core) { core->decoding = false; });
        const Napi::Promise decoding = std::move(task).start(
            [&](auto job) { dispatch(environment, *core(), std::move(job)); });
        core()->decoding = true;
        return decoding;
    });
}

Napi::Value AudioHandle::cancel_decode(const Napi::CallbackInfo& info) {
    core()->token.cancel();
    return info.Env().Undefined();
}

Napi::Value AudioHandle::release(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] {
        open_store(*core()).release_before(read_integer(info[0], "sample"));
        return info.Env().Undefined();
    });
}

Napi::Value AudioHandle::close(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] {
        if (core()->decoding) {
            throw Error(ErrorCode::kInvalidRequest, "the input is being decoded");
        }
        core()->own_thread.reset();
        core()->input.reset();
        core()->live.reset();
        core()->store.reset();
        return info.Env().Undefined();
    });
}

Napi::Value AudioHandle::info(const Napi::CallbackInfo& info) {
    return to_js(info.Env(), core()->info);
}

Napi::Value AudioHandle::warnings(const Napi::CallbackInfo& info) {
    return to_js(info.Env(), core()->warnings);
}

Napi::Value AudioHandle::end_sample(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&]() -> Napi::Value {
        return Napi::Number::New(info.Env(), static_cast<double>(open_store(*core()).end()));
    });
}

Napi::Value AudioHandle::ended(const Napi::CallbackInfo& info) {
    return Napi::Boolean::New(info.Env(), core()->ended);
}

Napi::Value AudioHandle::resident_bytes(const Napi::CallbackInfo& info) {
    const double bytes = core()->store ? static_cast<double>(core()->store->resident_bytes()) : 0.0;
    return Napi::Number::New(info.Env(), bytes);
}

namespace {

/// False with errno set. Only the Linux call leaves no moment in which a child could inherit the
/// descriptors.
bool open_private_pipe(int descriptors[2]) {
#ifdef __linux__
    return ::pipe2(descriptors, O_CLOEXEC) == 0;
#else
    return ::pipe(descriptors) == 0 && ::fcntl(descriptors[0], F_SETFD, FD_CLOEXEC) == 0 &&
           ::fcntl(descriptors[1], F_SETFD, FD_CLOEXEC) == 0;
#endif
}

}  // namespace

Napi::Value create_pipe(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&]() -> Napi::Value {
        int descriptors[2];
        if (!open_private_pipe(descriptors)) {
            throw Error(ErrorCode::kInternal,
                        "cannot create a pipe: " + std::generic_category().message(errno));
        }
        Napi::Object pipe = Napi::Object::New(info.Env());
        pipe.Set("readDescriptor", Napi::Number::New(info.Env(), descriptors[0]));
        pipe.Set("writeDescriptor", Napi::Number::New(info.Env(), descriptors[1]));
        return pipe;
    });
}

}  // namespace wavepool::binding
