#include <napi.h>

#include "binding/audio_handle.h"
#include "binding/convert.h"
#include "binding/environment.h"
#include "binding/model_handle.h"
#include "binding/pool_handle.h"
#include "binding/promise_task.h"
#include "binding/state_handle.h"
#include "binding/stream_handle.h"
#include "framework/build_info.h"
#ifdef WAVEPOOL_TEST_ADDON
#include "binding/test_extension.h"
#endif

namespace wavepool::binding {
namespace {

#ifdef WAVEPOOL_TEST_ADDON
// setFault(name, armed), clearFaults() and liveObjects()
Napi::Value js_set_fault(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] {
        set_fault(read_string(info[0], "name"), info[1].ToBoolean().Value());
        return info.Env().Undefined();
    });
}

Napi::Value js_clear_faults(const Napi::CallbackInfo& info) {
    clear_faults();
    return info.Env().Undefined();
}

Napi::Value js_live_objects(const Napi::CallbackInfo& info) {
    const auto [weights, sessions] = live_objects();
    Napi::Object counts = Napi::Object::New(info.Env());
    counts.Set("weights", weights);
    counts.Set("sessions", sessions);
    return counts;
}
#endif

Napi::Object export_all(Napi::Env env, Napi::Object exports) {
    Environment::attach(env);
    Environment& environment = Environment::of(env);
    environment.audio_constructor = AudioHandle::define(env);
    environment.model_constructor = ModelHandle::define(env);
    environment.pool_constructor = PoolHandle::define(env);
    environment.state_constructor = StateHandle::define(env);
    environment.stream_constructor = StreamHandle::define(env);

    exports.Set("build", to_js(env, build_info()));
    exports.Set("openFile", Napi::Function::New<&AudioHandle::open_file>(env, "openFile"));
    exports.Set("openPipe", Napi::Function::New<&AudioHandle::open_pipe>(env, "openPipe"));
    exports.Set("openLive", Napi::Function::New<&AudioHandle::open_live>(env, "openLive"));
    exports.Set("createPipe", Napi::Function::New<&create_pipe>(env, "createPipe"));
    exports.Set("loadModel", Napi::Function::New<&ModelHandle::load>(env, "loadModel"));
#ifdef WAVEPOOL_TEST_ADDON
    exports.Set("setFault", Napi::Function::New<&js_set_fault>(env, "setFault"));
    exports.Set("clearFaults", Napi::Function::New<&js_clear_faults>(env, "clearFaults"));
    exports.Set("liveObjects", Napi::Function::New<&js_live_objects>(env, "liveObjects"));
#endif
    return exports;
}

}  // namespace
}  // namespace wavepool::binding

static Napi::Object initialize(Napi::Env env, Napi::Object exports) {
    wavepool::binding::guarded(
        env, [&]() -> Napi::Value { return wavepool::binding::export_all(env, exports); });
    return exports;
}

// The macro makes a symbol out of this name, which therefore is unqualified.
NODE_API_MODULE(addon, initialize)
