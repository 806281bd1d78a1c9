#include "models/whisper/decoding/attempt.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "framework/error.h"
#include "framework/utf8.h"
#include "models/whisper/decoding/guards.h"
#include "models/whisper/request/alignment.h"
#include "models/whisper/request/words.h"

namespace wavepool::whisper {
namespace {

constexpr float kTemperatureStep = 0.2F;
constexpr double kSecondsPerTick = 0.01;
constexpr int kTicksPerFrame = 2;
constexpr double kSecondsPerFrame = kTicksPerFrame * kSecondsPerTick;

}  // namespace

Attempt::Attempt(const Setting& setting, const RequestOptions& options,
                 std::span<const float> samples, int frames, Effort effort)
    : setting_(setting),
      options_(options),
      samples_(samples),
      frames_(frames),
      effort_(effort),
      language_(options.language.value_or(0)),
      prompt_(setting.model.vocabulary.encode(options.prompt)) {}

void Attempt::run(const CancelToken& cancel) {
    const auto check = [&](bool done, const char* what) {
        if (cancel.cancelled()) throw Error(ErrorCode::kCancelled, what);
        if (!done)
            throw Error(ErrorCode::kInternal, std::string("whisper.cpp failed while ") + what);
    };
    check(true, "before decoding");
    library::restart(*setting_.model.context, setting_.state, frames_);
    if (setting_.model.parameters.multilingual() && !options_.language) {
        language_ = library::detect_language(
            *setting_.model.context, setting_.state, samples_,
            static_cast<int>(setting_.model.parameters.languages()), setting_.threads);
        check(language_ >= 0, "detecting the language");
    }
    const int code =
        whisper_full_with_state(setting_.model.context.get(), &setting_.state, parameters(),
                                samples_.data(), static_cast<int>(samples_.size()));
    if (setting_.stuck) return;
    check(code == 0, "decoding");
    end_window();
    check(!alignment_failed_, "aligning words");
}

whisper_full_params Attempt::parameters() {
    whisper_full_params params = whisper_full_default_params(WHISPER_SAMPLING_GREEDY);
    params.n_threads = setting_.threads;
    params.audio_ctx = frames_ < kAudioContext ? frames_ : 0;
    params.language = setting_.model.languages[static_cast<std::size_t>(language_)].c_str();
    params.translate = options_.translate;
    params.no_context = true;
    // "[BLANK_AUDIO]", "(music)" and the like, as OpenAI's own decoder does by default.
    params.suppress_nst = true;
    params.print_progress = false;
    params.print_timestamps = false;
    params.prompt_tokens = prompt_.data();
    params.prompt_n_tokens = static_cast<int>(prompt_.size());
    // There is one candidate: several would enlarge the caches sixfold while running.
    params.greedy.best_of = 1;
    params.temperature_inc = effort_ == Effort::kUntilGood ? kTemperatureStep : 0.0F;
    // Audio that is known to be speech is never dropped as silence: no probability is above 1.
    if (options_.suppress_blank) params.no_speech_thold = 1;
    params.encoder_begin_callback = [](whisper_context*, whisper_state*, void* self) {
        auto& attempt = *static_cast<Attempt*>(self);
        attempt.end_window();
        attempt.ran_ = true;
        return !attempt.alignment_failed_;
    };
    params.encoder_begin_callback_user_data = this;
    params.logits_filter_callback = [](whisper_context*, whisper_state*,
                                       const whisper_token_data* tokens, int count, float* logits,
                                       void* self) {
        static_cast<Attempt*>(self)->filter({tokens, static_cast<std::size_t>(count)}, logits);
    };
    params.logits_filter_callback_user_data = this;
    return params;
}

void Attempt::filter(std::span<const whisper_token_data> tokens, float* logits) {
    const std::int32_t end = setting_.model.parameters.end_token();
    std::vector<std::int32_t> text;
    for (const whisper_token_data& token : tokens) {
        if (token.id < end) text.push_back(token.id);
    }
    if (options_.suppress_blank && text.empty()) logits[end] = -INFINITY;
    const bool grown = !tokens.empty() && tokens.back().id < end;
    if (effort_ == Effort::kOnce && grown && ends_in_loop(text)) setting_.stuck = true;
}

/// Called before the next window is encoded, while the encoder's output still belongs to this
/// window.
void Attempt::end_window() {
    if (!ran_) return;
    const library::WindowReport report = library::report(setting_.state);
    Window window;
    window.first_segment = windows_.empty() ? 0 : windows_.back().end_segment;
    window.end_segment = whisper_full_n_segments_from_state(&setting_.state);
    int steps = report.failed_temperatures;
    for (const Window& each : windows_) steps -= each.temperature_step;
    window.temperature_step = steps;
    completed_ = report.completed;
    log_probability_ = windows_.empty()
                           ? report.average_log_probability
                           : std::min(log_probability_, report.average_log_probability);
    if (options_.words && window.end_segment > window.first_segment && !setting_.stuck) {
        window.token_starts = align(window);
        alignment_failed_ = alignment_failed_ || window.token_starts.empty();
    }
    windows_.push_back(std::move(window));
}

std::vector<whisper_token_data> Attempt::tokens_of(int segment) const {
    std::vector<whisper_token_data> tokens;
    const int count = whisper_full_n_tokens_from_state(&setting_.state, segment);
    for (int i = 0; i < count; ++i) {
        tokens.push_back(whisper_full_get_token_data_from_state(&setting_.state, segment, i));
    }
    return tokens;
}

std::vector<double> Attempt::align(const Window& window) {
    whisper_context* context = setting_.model.context.get();
    const std::int32_t end = setting_.model.parameters.end_token();
    std::vector<whisper_token> read{whisper_token_sot(context)};
    if (setting_.model.parameters.multilingual()) {
        read.push_back(whisper_token_lang(context, language_));
        read.push_back(options_.translate ? whisper_token_translate(context)
                                          : whisper_token_transcribe(context));
    }
    // The attention of this token's row tells where the first text token begins.
    const std::size_t first = read.size();
    read.push_back(whisper_token_not(context));
    for (int segment = window.first_segment; segment < window.end_segment; ++segment) {
        for (const whisper_token_data& token : tokens_of(segment)) {
            if (token.id < end) read.push_back(token.id);
        }
    }
    // The first time of a segment is the beginning of its window plus its timestamp token.
    const whisper_token_data opening = tokens_of(window.first_segment).front();
    const std::int64_t begin =
        whisper_full_get_segment_t0_from_state(&setting_.state, window.first_segment) -
        kTicksPerFrame * std::int64_t{opening.tid - whisper_token_beg(context)};
    const std::int64_t left = whisper_n_len_from_state(&setting_.state) - begin;
    const auto used = std::clamp<std::int64_t>(left / kTicksPerFrame, 1, frames_);

    std::vector<float> weights;
    if (!library::attention(*context, setting_.state, setting_.model.heads, read, setting_.threads,
                            weights)) {
        return {};
    }
    const std::vector<std::size_t> frames =
        begin_frames({.weights = weights,
                      .heads = setting_.model.heads.size(),
                      .tokens = read.size(),
                      .frames = static_cast<std::size_t>(frames_)},
                     first, static_cast<std::size_t>(used));
    std::vector<double> starts;
    for (const std::size_t frame : frames) {
        starts.push_back(static_cast<double>(begin) * kSecondsPerTick +
                         static_cast<double>(frame) * kSecondsPerFrame);
    }
    return starts;
}

bool Attempt::trusted() const {
    if (setting_.stuck || !completed_ || log_probability_ < kTrustedLogProbability) return false;
    return whisper_full_n_segments_from_state(&setting_.state) > 0;
}

TimedPiece Attempt::piece(int segment, const Window& window, std::span<const double> starts,
                          double seconds) const {
    const std::int32_t end_token = setting_.model.parameters.end_token();
    const auto time = [&](std::int64_t ticks) {
        return std::clamp(static_cast<double>(ticks) * kSecondsPerTick, 0.0, seconds);
    };
    TimedPiece piece;
    piece.start = time(whisper_full_get_segment_t0_from_state(&setting_.state, segment));
    piece.end = std::max(time(whisper_full_get_segment_t1_from_state(&setting_.state, segment)),
                         piece.start);
    piece.no_speech_probability =
        whisper_full_get_segment_no_speech_prob_from_state(&setting_.state, segment);
    piece.temperature = kTemperatureStep * static_cast<float>(window.temperature_step);
    std::string text;
    std::vector<TimedToken> timed;
    float log_probability = 0;
    for (const whisper_token_data& token : tokens_of(segment)) {
        if (token.id >= end_token) continue;
        const std::string_view bytes = setting_.model.vocabulary.bytes(token.id);
        text += bytes;
        log_probability += token.plog;
        const double start = timed.size() < starts.size() ? starts[timed.size()] : piece.end;
        timed.push_back({.bytes = bytes, .start = start, .probability = token.p});
    }
    piece.text = valid_utf8(trimmed(text));
    if (!timed.empty()) {
        piece.average_log_probability = log_probability / static_cast<float>(timed.size());
    }
    if (options_.words) piece.words = words_of(timed, piece.start, piece.end);
    return piece;
}

TaskResult Attempt::result(double seconds) const {
    const std::int32_t end_token = setting_.model.parameters.end_token();
    TaskResult result;
    result.language = setting_.model.languages[static_cast<std::size_t>(language_)];
    result.truncated = ran_ && !completed_;
    std::string text;
    for (const Window& window : windows_) {
        std::span<const double> starts = window.token_starts;
        for (int segment = window.first_segment; segment < window.end_segment; ++segment) {
            std::size_t count = 0;
            for (const whisper_token_data& token : tokens_of(segment)) {
                if (token.id >= end_token) continue;
                result.tokens.push_back(token.id);
                text += setting_.model.vocabulary.bytes(token.id);
                ++count;
            }
            TimedPiece found = piece(segment, window, starts, seconds);
            starts = starts.subspan(std::min(count, starts.size()));
            if (!found.text.empty()) result.pieces.push_back(std::move(found));
        }
    }
    result.text = valid_utf8(trimmed(text));
    return result;
}

}  // namespace wavepool::whisper
