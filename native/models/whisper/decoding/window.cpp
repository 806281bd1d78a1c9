#include "models/whisper/decoding/window.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "kernels/vector_math.h"
#include "models/whisper/checkpoint/checkpoint.h"
#include "models/whisper/decoding/guards.h"

namespace wavepool::whisper {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

constexpr std::size_t kMostTokens = kTextContext / 2 - 4;
/// Times up to 1 s may come first.
constexpr std::size_t kMostFirstTimes = 51;

constexpr double kLeastLogProbability = -1;
constexpr float kMostSilence = 0.6F;
constexpr std::size_t kEntropyTokens = 32;
constexpr double kLeastEntropy = 2.4;

void forbid(std::span<float> scores) { std::ranges::fill(scores, kNever); }

}  // namespace

void Window::read_no_speech(std::span<const float> scores) {
    const float score = scores[static_cast<std::size_t>(setting_.tokens.no_speech)];
    no_speech_probability_ = std::exp(score - kernels::log_sum_exp(scores));
}

void Window::apply_rules(std::span<float> scores) const {
    const auto end = static_cast<std::size_t>(setting_.tokens.end);
    const auto first_time = static_cast<std::size_t>(setting_.tokens.first_time);
    for (const whisper_token token : setting_.tokens.suppressed) {
        scores[static_cast<std::size_t>(token)] = kNever;
    }
    const std::span<float> times = scores.subspan(first_time);
    if (tokens_.empty()) {
        scores[end] = kNever;
        scores[static_cast<std::size_t>(setting_.tokens.space)] = kNever;
        forbid(times.subspan(std::min(kMostFirstTimes, times.size())));
    }
    if (setting_.suppress_blank && text_.empty()) scores[end] = kNever;
    if (!tokens_.empty() && is_time(tokens_.back().id)) {
        const bool pair = tokens_.size() < 2 || is_time(tokens_[tokens_.size() - 2].id);
        forbid(pair ? times : scores.first(end));
    }
    if (has_time_) {
        forbid(
            times.first(std::min(static_cast<std::size_t>(seek_ / kTicksPerFrame), times.size())));
    }
}

void Window::choose(std::span<float> scores) {
    apply_rules(scores);
    const auto first_time = static_cast<std::size_t>(setting_.tokens.first_time);
    const std::span<float> text = scores.first(first_time);
    const std::span<float> times = scores.subspan(first_time);
    const float likeliest_text = kernels::largest(text);
    const float all_times = kernels::log_sum_exp(times);
    const std::int32_t time = setting_.tokens.first_time + kernels::argmax(times);
    const std::int32_t id = all_times > likeliest_text ? time : kernels::argmax(scores);
    // The sum over all is that of texts and times together.
    const float all_text = kernels::log_sum_exp(text);
    const float top = std::max(all_text, all_times);
    const float all = top + std::log(std::exp(all_text - top) + std::exp(all_times - top));
    take({.id = id,
          .time = is_time(id) ? id : time,
          .log_probability = scores[static_cast<std::size_t>(id)] - all});
}

void Window::take(const Token& token) {
    const std::size_t index = tokens_.size();
    tokens_.push_back(token);
    if (token.id > setting_.tokens.first_time) {
        const int seek = kTicksPerFrame * (token.id - setting_.tokens.first_time);
        if (has_time_ && seek_ > seek && length_ < index) {
            state_ = State::kFailed;
            return;
        }
        seek_ = seek;
        length_ = index + 1;
        has_time_ = true;
    }
    const bool ends_clip = setting_.begin + seek_ + kShortestWindow >= setting_.end;
    if (token.id == setting_.tokens.end || (has_time_ && ends_clip)) {
        if (length_ == 0 && ends_clip) length_ = index + 1;
        state_ = length_ == 0 ? State::kFailed : State::kCompleted;
        return;
    }
    if (index + 1 == kMostTokens) {
        const bool most = length_ > 0 && seek_ >= kTicksOfContext / 2;
        state_ = most ? State::kFull : State::kFailed;
        return;
    }
    if (token.id < setting_.tokens.end) {
        text_.push_back(token.id);
        if (ends_in_loop(text_)) state_ = State::kStuck;
    }
}

double Window::average_log_probability() const {
    if (length_ == 0) return kNever;
    double sum = 0;
    for (const Token& token : tokens()) sum += static_cast<double>(token.log_probability);
    return sum / static_cast<double>(length_);
}

bool Window::repetitive() const {
    if (length_ <= kEntropyTokens) return false;
    std::map<std::int32_t, int> counts;
    for (const Token& token : tokens().last(kEntropyTokens)) ++counts[token.id];
    double entropy = 0;
    for (const auto& [id, count] : counts) {
        const double share = count / static_cast<double>(kEntropyTokens);
        entropy -= share * std::log(share);
    }
    return entropy < kLeastEntropy;
}

float Window::silence_threshold() const noexcept {
    // Audio that is known to be speech is never dropped as silence: no probability is above 1.
    return setting_.suppress_blank ? 1.0F : kMostSilence;
}

bool Window::silent() const {
    return no_speech_probability_ > silence_threshold() &&
           average_log_probability() < kLeastLogProbability;
}

bool Window::broken() const {
    const bool ended = state_ == State::kCompleted || state_ == State::kFull;
    return !ended || repetitive() || !std::isfinite(average_log_probability());
}

bool Window::doubtful() const {
    // Written so that a probability that is not a number counts as unsure.
    const bool sure = average_log_probability() >= kLeastLogProbability ||
                      no_speech_probability_ >= silence_threshold();
    return broken() || !sure;
}

int Window::advance() const {
    const std::span<const Token> counted = tokens();
    const bool single_time = counted.size() > 1 && !is_time(counted[counted.size() - 2].id) &&
                             counted.back().id > setting_.tokens.first_time;
    return single_time ? std::min(setting_.end - setting_.begin, kTicksOfContext) : seek_;
}

int Window::skipped() const { return std::max(advance() - seek_, 0); }

}  // namespace wavepool::whisper
