#pragma once

#include <napi.h>

#include <memory>
#include <vector>

#include "audio/audio_input.h"
#include "audio/sample_writer.h"
#include "binding/environment.h"
#include "binding/wrapped.h"
#include "framework/worker_threads.h"

namespace wavepool::binding {

/// One input and what decodes it: a file uses the shared decode threads; a pipe has a thread of its
/// own, since it may stall for as long as its writer does.
struct AudioCore final : NativeWork {
    void cancel() noexcept override { token.cancel(); }
    void join() noexcept override { own_thread.reset(); }

    // Used by the decoding thread while `decoding`, by the JS thread otherwise.
    std::unique_ptr<audio::AudioInput> input;

    // JS thread only.
    audio::SourceInfo info;
    std::vector<audio::Warning> warnings;
    std::shared_ptr<SampleStore> store;         ///< null once closed
    CancelToken token;                          ///< cancels the opening or decoding in progress
    std::unique_ptr<audio::SampleWriter> live;  ///< null unless JavaScript appends the samples
    bool decoding = false;
    bool ended = false;
    std::unique_ptr<WorkerThreads> own_thread;  ///< null for files
};

class AudioHandle : public Wrapped<AudioHandle, AudioCore> {
  public:
    static constexpr napi_type_tag kTypeTag{0x3f1c0d6b1f8a4e02, 0x9a7de0c5b2d84a11};

    static Napi::FunctionReference define(Napi::Env env);

    using Wrapped::Wrapped;

    // openFile(path, channel?) and openPipe(readDescriptor, stallTimeoutMs, channel?) return
    // promises of a handle. Without a channel, counted from 0, it holds the mix of all.
    static Napi::Value open_file(const Napi::CallbackInfo& info);
    static Napi::Value open_pipe(const Napi::CallbackInfo& info);
    // openLive(sampleRate, channels): a handle that append() fills.
    static Napi::Value open_live(const Napi::CallbackInfo& info);

  private:
    // decodeUntil(sample): Promise<void>. One at a time.
    Napi::Value decode_until(const Napi::CallbackInfo& info);
    // cancelDecode(): the decode in progress, if any, ends with CANCELLED.
    Napi::Value cancel_decode(const Napi::CallbackInfo& info);
    // append(samples): whole frames, in a Float32Array or an Int16Array. end(): no more will come.
    // Both only for live audio.
    Napi::Value append(const Napi::CallbackInfo& info);
    Napi::Value end(const Napi::CallbackInfo& info);
    // release(sample): frees everything before it.
    Napi::Value release(const Napi::CallbackInfo& info);
    // close(): frees everything; refused while decoding.
    Napi::Value close(const Napi::CallbackInfo& info);

    Napi::Value info(const Napi::CallbackInfo& info);
    Napi::Value warnings(const Napi::CallbackInfo& info);
    Napi::Value end_sample(const Napi::CallbackInfo& info);
    Napi::Value ended(const Napi::CallbackInfo& info);
    Napi::Value resident_bytes(const Napi::CallbackInfo& info);
};

/// createPipe(): { readDescriptor, writeDescriptor }, neither inherited by children unless passed
/// to them as stdio.
Napi::Value create_pipe(const Napi::CallbackInfo& info);

}  // namespace wavepool::binding
