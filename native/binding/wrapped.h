#pragma once

#include <napi.h>

#include <memory>
#include <string>
#include <utility>

#include "framework/error.h"

namespace wavepool::binding {

/// The base of every wrapped class: it shares ownership of native state, and has a type tag, so
/// that an object of another class is refused as an argument instead of being reinterpreted.
/// `Handle` provides `kTypeTag`; only native code constructs it.
template <typename Handle, typename Core>
class Wrapped : public Napi::ObjectWrap<Handle> {
  public:
    explicit Wrapped(const Napi::CallbackInfo& info) : Napi::ObjectWrap<Handle>(info) {
        if (info.Length() != 1 || !info[0].IsExternal()) {
            Napi::TypeError::New(info.Env(), "not constructible").ThrowAsJavaScriptException();
            return;
        }
        core_ = *info[0].template As<Napi::External<std::shared_ptr<Core>>>().Data();
        info.This().template As<Napi::Object>().TypeTag(&Handle::kTypeTag);
    }

    [[nodiscard]] static Napi::Value wrap(Napi::Env env, const Napi::FunctionReference& constructor,
                                          std::shared_ptr<Core> core) {
        return constructor.New({Napi::External<std::shared_ptr<Core>>::New(env, &core)});
    }

    /// Throws Error{kInvalidRequest} for anything but a Handle.
    [[nodiscard]] static const std::shared_ptr<Core>& unwrap(Napi::Value value, const char* what) {
        if (!value.IsObject() || !value.As<Napi::Object>().CheckTypeTag(&Handle::kTypeTag)) {
            throw Error(ErrorCode::kInvalidRequest, std::string(what) + " is not a handle for it");
        }
        return Handle::Unwrap(value.As<Napi::Object>())->core();
    }

    [[nodiscard]] const std::shared_ptr<Core>& core() const { return core_; }

  private:
    std::shared_ptr<Core> core_;
};

}  // namespace wavepool::binding
