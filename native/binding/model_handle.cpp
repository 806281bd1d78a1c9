#include "binding/model_handle.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "binding/convert.h"
#include "binding/environment.h"
#include "binding/pool_handle.h"
#include "binding/promise_task.h"
#include "binding/state_handle.h"
#include "models/families.h"
#ifdef WAVEPOOL_TEST_ADDON
#include "binding/test_extension.h"
#endif

namespace wavepool::binding {
namespace {

using ModelPtr = std::shared_ptr<const ILoadedModel>;

std::vector<Family> known_families() {
    std::vector<Family> known(families().begin(), families().end());
#ifdef WAVEPOOL_TEST_ADDON
    const auto extra = test_families();
    known.insert(known.end(), extra.begin(), extra.end());
#endif
    return known;
}

const ModelPtr& open_model(const ModelCore& core) {
    if (!core.model) throw Error(ErrorCode::kInvalidRequest, "the model is closed");
    return core.model;
}

}  // namespace

Napi::FunctionReference ModelHandle::define(Napi::Env env) {
    return Napi::Persistent(
        DefineClass(env, "ModelHandle",
                    {
                        InstanceMethod<&ModelHandle::create_pool>("createPool"),
                        InstanceMethod<&ModelHandle::create_state>("createState"),
                        InstanceMethod<&ModelHandle::close>("close"),
                        InstanceAccessor<&ModelHandle::info>("info"),
                    }));
}

Napi::Value ModelHandle::load(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&]() -> Napi::Value {
        const Napi::Env env = info.Env();
        auto file = std::make_shared<std::filesystem::path>(read_string(info[0], "path"));
        auto task = make_promise_task<ModelPtr, std::filesystem::path>(
            env, Environment::of(env).js_thread(), std::move(file),
            [](std::filesystem::path& file) { return load_model(file, known_families()); },
            [](Napi::Env env, const ModelPtr& model, const auto&) {
                return ModelHandle::wrap(env, Environment::of(env).model_constructor,
                                         std::make_shared<ModelCore>(model));
            });
        return std::move(task).start([&](auto job) { Environment::of(env).spawn(std::move(job)); });
    });
}

Napi::Value ModelHandle::create_pool(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&]() -> Napi::Value {
        const Napi::Env env = info.Env();
        using PoolPtr = std::shared_ptr<PoolCore>;
        // A core of its own: the handle may be closed meanwhile.
        auto owner = std::make_shared<ModelCore>(open_model(*core()));
        auto task = make_promise_task<PoolPtr, ModelCore>(
            env, Environment::of(env).js_thread(), std::move(owner),
            [request = read_pool_request(info[0])](ModelCore& owner) {
                return std::make_shared<PoolCore>(owner.model->create_session(request.session),
                                                  request.slots);
            },
            [](Napi::Env env, const PoolPtr& pool, const auto&) {
                Environment::of(env).track(pool);
                return PoolHandle::wrap(env, Environment::of(env).pool_constructor, pool);
            });
        return std::move(task).start([&](auto job) { Environment::of(env).spawn(std::move(job)); });
    });
}

Napi::Value ModelHandle::create_state(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] {
        const Napi::Env env = info.Env();
        auto state = open_model(*core())->create_state();
        if (!state) throw Error(ErrorCode::kInvalidRequest, "this model keeps no state");
        return StateHandle::wrap(env, Environment::of(env).state_constructor,
                                 std::make_shared<StateCore>(std::move(state), false));
    });
}

Napi::Value ModelHandle::close(const Napi::CallbackInfo& info) {
    core()->model.reset();
    return info.Env().Undefined();
}

Napi::Value ModelHandle::info(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] { return to_js(info.Env(), open_model(*core())->info()); });
}

Napi::Value plan_model_task(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&]() -> Napi::Value {
        const Napi::Env env = info.Env();
        auto file = std::make_shared<std::filesystem::path>(read_string(info[0], "path"));
        auto task = make_promise_task<ModelPlan, std::filesystem::path>(
            env, Environment::of(env).js_thread(), std::move(file),
            [options = read_session_options(info[1])](std::filesystem::path& file) {
                return plan_model(file, options, known_families());
            },
            [](Napi::Env env, const ModelPlan& plan, const auto&) { return to_js(env, plan); });
        return std::move(task).start([&](auto job) { Environment::of(env).spawn(std::move(job)); });
    });
}

}  // namespace wavepool::binding
