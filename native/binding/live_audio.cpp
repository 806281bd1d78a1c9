// Audio that JavaScript appends to: the part of AudioHandle that needs no decoding thread.
#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "audio/containers/sample_format.h"
#include "binding/audio_handle.h"
#include "binding/convert.h"
#include "binding/promise_task.h"

namespace wavepool::binding {
namespace {

/// Memory that belongs to a typed array, and how its samples lie in it.
struct Pcm {
    audio::SampleFormat format;
    std::span<const std::uint8_t> bytes;
};

Pcm read_pcm(Napi::Value value) {
    if (value.IsTypedArray()) {
        const auto array = value.As<Napi::TypedArray>();
        const auto bytes = [&](void* data) {
            return std::span(static_cast<const std::uint8_t*>(data), array.ByteLength());
        };
        if (array.TypedArrayType() == napi_float32_array) {
            return {audio::SampleFormat::kF32, bytes(value.As<Napi::Float32Array>().Data())};
        }
        if (array.TypedArrayType() == napi_int16_array) {
            return {audio::SampleFormat::kS16, bytes(value.As<Napi::Int16Array>().Data())};
        }
    }
    throw Error(ErrorCode::kInvalidRequest, "samples must be a Float32Array or an Int16Array");
}

audio::SampleWriter& open_writer(const AudioCore& core) {
    if (!core.store) throw Error(ErrorCode::kInvalidRequest, "the input is closed");
    if (!core.live) throw Error(ErrorCode::kInvalidRequest, "only live audio can be appended to");
    if (core.ended) throw Error(ErrorCode::kInvalidRequest, "the live audio has ended");
    return *core.live;
}

}  // namespace

Napi::Value AudioHandle::open_live(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] {
        auto core = std::make_shared<AudioCore>();
        core->info = {.container = "live",
                      .codec = "pcm",
                      .sample_rate = read_int(info[0], "sampleRate"),
                      .channels = read_int(info[1], "channels")};
        core->live =
            std::make_unique<audio::SampleWriter>(core->info.sample_rate, core->info.channels);
        core->store = core->live->store();
        return wrap(info.Env(), Environment::of(info.Env()).audio_constructor, std::move(core));
    });
}

Napi::Value AudioHandle::append(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] {
        audio::SampleWriter& writer = open_writer(*core());
        const Pcm pcm = read_pcm(info[0]);
        const std::size_t width = audio::bytes_per_sample(pcm.format);
        const std::size_t count = pcm.bytes.size() / width;
        const auto channels = static_cast<std::size_t>(core()->info.channels);
        if (count % channels != 0) {
            throw Error(ErrorCode::kInvalidRequest, "the samples end within a frame");
        }
        std::vector<float> samples(count);
        audio::convert_samples(pcm.format, pcm.bytes, samples);
        writer.write(samples);
        core()->warnings = writer.warnings();
        return info.Env().Undefined();
    });
}

Napi::Value AudioHandle::end(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] {
        audio::SampleWriter& writer = open_writer(*core());
        writer.finish();
        core()->warnings = writer.warnings();
        core()->ended = true;
        return info.Env().Undefined();
    });
}

}  // namespace wavepool::binding
