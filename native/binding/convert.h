#pragma once

#include <napi.h>

#include <cstdint>
#include <string>

#include "audio/audio_input.h"
#include "framework/build_info.h"
#include "framework/models/model.h"
#include "framework/sessions/session.h"

namespace wavepool::binding {

/// JavaScript values become plain structs here, and back, on the JS thread. The typed mirror
/// (src/engine) has validated and defaulted; only types are checked again. Each reader throws
/// Error{kInvalidRequest} naming what it wanted.

[[nodiscard]] Napi::Object read_object(Napi::Value value, const char* what);
[[nodiscard]] std::string read_string(Napi::Value value, const char* what);
/// An integer that a JavaScript number holds exactly.
[[nodiscard]] std::int64_t read_integer(Napi::Value value, const char* what);
/// Reads as read_integer() does, and refuses what an int cannot hold.
[[nodiscard]] int read_int(Napi::Value value, const char* what);
[[nodiscard]] TaskOptions read_task_options(Napi::Value value);

/// Reads the options that all sessions of a pool share: mode, threads, maxBatch and, if given,
/// maxSegmentSeconds.
[[nodiscard]] SessionOptions read_session_options(Napi::Value value);

/// `slots` and what the model needs for its primary session.
struct PoolRequest {
    std::size_t slots = 1;
    SessionOptions session;
};
[[nodiscard]] PoolRequest read_pool_request(Napi::Value value);

[[nodiscard]] Napi::Value to_js(Napi::Env env, std::string_view text);
[[nodiscard]] Napi::Value to_js(Napi::Env env, const audio::SourceInfo& info);
[[nodiscard]] Napi::Value to_js(Napi::Env env, const std::vector<audio::Warning>& warnings);
[[nodiscard]] Napi::Value to_js(Napi::Env env, const ModelInfo& info);
[[nodiscard]] Napi::Value to_js(Napi::Env env, const ModelPlan& plan);
[[nodiscard]] Napi::Value to_js(Napi::Env env, const BuildInfo& info);
[[nodiscard]] Napi::Value to_js(Napi::Env env, const TaskResult& result);
/// `{ ok: true, result }` or `{ ok: false, error }`.
[[nodiscard]] Napi::Value to_js(Napi::Env env, const TaskOutcome& outcome);

}  // namespace wavepool::binding
