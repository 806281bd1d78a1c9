#pragma once

#include <napi.h>

#include <memory>

#include "binding/wrapped.h"
#include "framework/models/model.h"

namespace wavepool::binding {

struct ModelCore {
    std::shared_ptr<const ILoadedModel> model;  ///< null once closed
};

class ModelHandle : public Wrapped<ModelHandle, ModelCore> {
  public:
    static constexpr napi_type_tag kTypeTag{0x1e85c04fd7a34b68, 0xb90f5d2c6e714a8d};

    static Napi::FunctionReference define(Napi::Env env);

    using Wrapped::Wrapped;

    // loadModel(path) returns a promise of a handle; loading runs on a thread of its own.
    static Napi::Value load(const Napi::CallbackInfo& info);

  private:
    // createPool({ slots, mode, threads, maxBatch, maxSegmentSeconds? }): Promise<PoolHandle>, on a
    // thread of its own.
    Napi::Value create_pool(const Napi::CallbackInfo& info);
    // createState(): StateHandle
    Napi::Value create_state(const Napi::CallbackInfo& info);
    // close(): drops the weights unless pools or states still use them.
    Napi::Value close(const Napi::CallbackInfo& info);
    Napi::Value info(const Napi::CallbackInfo& info);
};

// planModel(path, { mode, threads, maxBatch, maxSegmentSeconds? }) returns a promise of
// { info, capacity, weightBytes, sessionBytes }; the header is read on a thread of its own.
Napi::Value plan_model_task(const Napi::CallbackInfo& info);

}  // namespace wavepool::binding
