#include "binding/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "binding/promise_task.h"

namespace wavepool::binding {
namespace {

constexpr double kMaxSafeInteger = 9007199254740991.0;

[[noreturn]] void wanted(const char* what, const char* type) {
    throw Error(ErrorCode::kInvalidRequest, std::string(what) + " must be " + type);
}

Napi::Value number(Napi::Env env, double value) { return Napi::Number::New(env, value); }

template <typename Array, typename T>
Napi::Value typed_array(Napi::Env env, const std::vector<T>& values) {
    Array array = Array::New(env, values.size());
    // Empty in an environment that is being terminated.
    if (!array.IsEmpty()) std::ranges::copy(values, array.Data());
    return array;
}

Napi::Value word_to_js(Napi::Env env, const TimedWord& word) {
    Napi::Object object = Napi::Object::New(env);
    object.Set("text", to_js(env, std::string_view(word.text)));
    object.Set("start", number(env, word.start));
    object.Set("end", number(env, word.end));
    object.Set("probability", number(env, word.probability));
    return object;
}

Napi::Value piece_to_js(Napi::Env env, const TimedPiece& piece) {
    Napi::Object object = Napi::Object::New(env);
    object.Set("text", to_js(env, std::string_view(piece.text)));
    object.Set("start", number(env, piece.start));
    object.Set("end", number(env, piece.end));
    object.Set("averageLogProbability", number(env, piece.average_log_probability));
    object.Set("noSpeechProbability", number(env, piece.no_speech_probability));
    object.Set("temperature", number(env, piece.temperature));
    Napi::Array words = Napi::Array::New(env, piece.words.size());
    for (std::uint32_t i = 0; i < words.Length(); ++i)
        words.Set(i, word_to_js(env, piece.words[i]));
    object.Set("words", words);
    return object;
}

Napi::Value texts(Napi::Env env, const std::vector<std::string>& values) {
    Napi::Array array = Napi::Array::New(env, values.size());
    for (std::uint32_t i = 0; i < array.Length(); ++i) {
        array.Set(i, to_js(env, std::string_view(values[i])));
    }
    return array;
}

std::size_t read_count(Napi::Value value, const char* what) {
    const std::int64_t count = read_integer(value, what);
    if (count < 0) wanted(what, "a count");
    return static_cast<std::size_t>(count);
}

}  // namespace

Napi::Object read_object(Napi::Value value, const char* what) {
    if (!value.IsObject()) wanted(what, "an object");
    return value.As<Napi::Object>();
}

std::string read_string(Napi::Value value, const char* what) {
    if (!value.IsString()) wanted(what, "a string");
    return value.As<Napi::String>().Utf8Value();
}

std::int64_t read_integer(Napi::Value value, const char* what) {
    if (!value.IsNumber()) wanted(what, "a number");
    const double number = value.As<Napi::Number>().DoubleValue();
    if (std::abs(number) > kMaxSafeInteger || std::trunc(number) != number) {
        wanted(what, "an integer");
    }
    return static_cast<std::int64_t>(number);
}

int read_int(Napi::Value value, const char* what) {
    return static_cast<int>(std::clamp<std::int64_t>(read_integer(value, what),
                                                     std::numeric_limits<int>::min(),
                                                     std::numeric_limits<int>::max()));
}

TaskOptions read_task_options(Napi::Value value) {
    const Napi::Object object = read_object(value, "options");
    const Napi::Array names = object.GetPropertyNames();
    TaskOptions options;
    for (std::uint32_t i = 0; i < names.Length(); ++i) {
        const std::string name = read_string(names.Get(i), "an option name");
        const Napi::Value option = object.Get(name);
        if (option.IsBoolean()) {
            options.emplace(name, option.As<Napi::Boolean>().Value());
        } else if (option.IsNumber()) {
            options.emplace(name, option.As<Napi::Number>().DoubleValue());
        } else {
            options.emplace(name, read_string(option, name.c_str()));
        }
    }
    return options;
}

SessionOptions read_session_options(Napi::Value value) {
    const Napi::Object object = read_object(value, "pool options");
    SessionOptions options;
    const std::string mode = read_string(object.Get("mode"), "mode");
    if (mode == run_mode_name(RunMode::kOffline)) {
        options.mode = RunMode::kOffline;
    } else if (mode == run_mode_name(RunMode::kStreaming)) {
        options.mode = RunMode::kStreaming;
    } else {
        wanted("mode", "\"offline\" or \"streaming\"");
    }
    options.threads = read_int(object.Get("threads"), "threads");
    options.max_batch = read_count(object.Get("maxBatch"), "maxBatch");
    const Napi::Value longest = object.Get("maxSegmentSeconds");
    if (!longest.IsUndefined()) {
        if (!longest.IsNumber()) wanted("maxSegmentSeconds", "a number");
        options.max_segment_seconds = longest.As<Napi::Number>().DoubleValue();
    }
    return options;
}

PoolRequest read_pool_request(Napi::Value value) {
    const Napi::Object object = read_object(value, "pool options");
    return {.slots = read_count(object.Get("slots"), "slots"),
            .session = read_session_options(value)};
}

Napi::Value to_js(Napi::Env env, std::string_view text) {
    return Napi::String::New(env, text.data(), text.size());
}

Napi::Value to_js(Napi::Env env, const audio::SourceInfo& info) {
    Napi::Object object = Napi::Object::New(env);
    object.Set("container", to_js(env, std::string_view(info.container)));
    object.Set("codec", to_js(env, std::string_view(info.codec)));
    object.Set("sampleRate", number(env, info.sample_rate));
    object.Set("channels", number(env, info.channels));
    object.Set("bitsPerSample", number(env, info.bits_per_sample));
    return object;
}

Napi::Value to_js(Napi::Env env, const std::vector<audio::Warning>& warnings) {
    Napi::Array array = Napi::Array::New(env, warnings.size());
    for (std::uint32_t i = 0; i < array.Length(); ++i) {
        Napi::Object object = Napi::Object::New(env);
        object.Set("code", to_js(env, std::string_view(warnings[i].code)));
        object.Set("message", to_js(env, std::string_view(warnings[i].message)));
        array.Set(i, object);
    }
    return array;
}

Napi::Value to_js(Napi::Env env, const ModelInfo& info) {
    Napi::Object object = Napi::Object::New(env);
    object.Set("family", to_js(env, std::string_view(info.family)));
    object.Set("task", to_js(env, task_kind_name(info.task)));
    object.Set("name", to_js(env, std::string_view(info.name)));
    object.Set("weightBytes", number(env, static_cast<double>(info.weight_bytes)));
    object.Set("nativeBatch", Napi::Boolean::New(env, info.native_batch));
    object.Set("maxSegmentSeconds", number(env, info.max_segment_seconds));
    object.Set("windowSamples", number(env, static_cast<double>(info.window_samples)));
    object.Set("stateful", Napi::Boolean::New(env, info.stateful));
    object.Set("languages", texts(env, info.languages));
    object.Set("optionNames", texts(env, info.option_names));
    return object;
}

Napi::Value to_js(Napi::Env env, const ModelPlan& plan) {
    Napi::Object object = Napi::Object::New(env);
    object.Set("info", to_js(env, plan.info));
    object.Set("capacity", number(env, static_cast<double>(plan.capacity)));
    object.Set("weightBytes", number(env, static_cast<double>(plan.info.weight_bytes)));
    object.Set("sessionBytes", number(env, static_cast<double>(plan.session_bytes)));
    return object;
}

Napi::Value to_js(Napi::Env env, const BuildInfo& info) {
    Napi::Object object = Napi::Object::New(env);
    object.Set("identity", to_js(env, info.identity));
    object.Set("ggml", to_js(env, info.ggml));
    object.Set("compiler", to_js(env, info.compiler));
    object.Set("flags", to_js(env, info.flags));
    object.Set("backend", to_js(env, info.backend));
    return object;
}

Napi::Value to_js(Napi::Env env, const TaskResult& result) {
    Napi::Object object = Napi::Object::New(env);
    object.Set("text", to_js(env, std::string_view(result.text)));
    Napi::Array pieces = Napi::Array::New(env, result.pieces.size());
    for (std::uint32_t i = 0; i < pieces.Length(); ++i) {
        pieces.Set(i, piece_to_js(env, result.pieces[i]));
    }
    object.Set("pieces", pieces);
    object.Set("language", to_js(env, std::string_view(result.language)));
    object.Set("tokens", typed_array<Napi::Int32Array>(env, result.tokens));
    object.Set("truncated", Napi::Boolean::New(env, result.truncated));
    object.Set("probabilities", typed_array<Napi::Float32Array>(env, result.probabilities));
    return object;
}

Napi::Value to_js(Napi::Env env, const TaskOutcome& outcome) {
    Napi::Object object = Napi::Object::New(env);
    const auto* error = std::get_if<Error>(&outcome);
    object.Set("ok", Napi::Boolean::New(env, error == nullptr));
    if (error != nullptr) {
        object.Set("error", to_js_error(env, *error));
    } else {
        object.Set("result", to_js(env, std::get<TaskResult>(outcome)));
    }
    return object;
}

}  // namespace wavepool::binding
