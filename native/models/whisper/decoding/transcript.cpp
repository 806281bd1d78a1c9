#include "models/whisper/decoding/transcript.h"

#include <algorithm>
#include <string>
#include <utility>

#include "framework/utf8.h"

namespace wavepool::whisper {
namespace {

constexpr double kSecondsPerTick = 0.01;

/// Tokens of a window between two times, in ticks of the clip.
struct Stretch {
    int begin = 0;
    int end = 0;
    std::span<const Window::Token> tokens;
};

/// The stretches of a window that have text.
std::vector<Stretch> stretches_of(const library::SpecialTokens& special, const Window& window) {
    const auto tokens = window.tokens();
    const auto ticks = [&](std::int32_t time) {
        return window.begin() + kTicksPerFrame * (time - special.first_time);
    };
    const auto is_later = [&](std::size_t index) {
        return index < tokens.size() && tokens[index].id > special.first_time;
    };
    std::vector<Stretch> stretches;
    std::size_t first = 0;
    bool has_text = false;
    int begin = tokens.empty() ? 0 : ticks(tokens.front().time);
    const auto end_at = [&](std::size_t end, int time) {
        if (has_text) stretches.push_back({begin, time, tokens.subspan(first, end - first)});
        has_text = false;
        first = end;
    };
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        has_text = has_text || tokens[i].id < special.end;
        if (!is_later(i)) continue;
        end_at(i + 1, ticks(tokens[i].id));
        while (is_later(i + 1)) ++i;
        begin = ticks(tokens[i].id);
        first = i + 1;
    }
    end_at(tokens.size(), window.begin() + window.last_time());
    return stretches;
}

}  // namespace

TaskResult transcript_of(const SharedModel& model, std::span<const Window> windows, int language,
                         double seconds) {
    const auto time = [&](int ticks) { return std::clamp(ticks * kSecondsPerTick, 0.0, seconds); };
    TaskResult result;
    result.language = model.languages[static_cast<std::size_t>(language)];
    result.truncated = !windows.empty() && windows.back().state() != Window::State::kCompleted;
    std::string whole;
    for (const Window& window : windows) {
        if (window.silent()) continue;
        for (const Stretch& stretch : stretches_of(model.special, window)) {
            TimedPiece piece;
            piece.start = time(stretch.begin);
            piece.end = std::max(time(stretch.end), piece.start);
            piece.no_speech_probability = window.no_speech_probability();
            std::string text;
            float log_probability = 0;
            int count = 0;
            for (const Window::Token& token : stretch.tokens) {
                if (token.id >= model.special.end) continue;
                result.tokens.push_back(token.id);
                text += model.vocabulary.bytes(token.id);
                log_probability += token.log_probability;
                ++count;
            }
            whole += text;
            piece.text = valid_utf8(trimmed(text));
            piece.average_log_probability = log_probability / static_cast<float>(count);
            if (!piece.text.empty()) result.pieces.push_back(std::move(piece));
        }
    }
    result.text = valid_utf8(trimmed(whole));
    return result;
}

}  // namespace wavepool::whisper
