#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/whisper/library/library.h"

namespace wavepool::whisper {

/// Ticks of 10 ms.
inline constexpr int kTicksPerFrame = 2;
inline constexpr int kTicksOfContext = 3000;
inline constexpr int kShortestWindow = 10;

/// Decodes one window from scores, greedily, as whisper.cpp does it: times come in pairs and
/// ascend, the first is at most 1 s, a time is chosen where all times together are likelier than
/// any word, and what follows the last time is left to the next window.
class Window {
  public:
    struct Setting {
        const library::SpecialTokens& tokens;
        int begin = 0;  ///< ticks of the clip before the window
        int end = 0;    ///< ticks of the whole clip
        bool suppress_blank = false;
    };
    struct Token {
        std::int32_t id = 0;
        std::int32_t time = 0;  ///< the likeliest of times
        float log_probability = 0;
    };
    enum class State {
        kDecoding,
        kCompleted,  ///< its end was found
        kFull,       ///< the limit of tokens was reached
        kFailed,     ///< it makes no sense
        kStuck,      ///< it repeats itself
    };

    explicit Window(const Setting& setting) : setting_(setting) {}

    /// Reads how likely silence is from the scores [vocabulary] that follow the start token.
    void read_no_speech(std::span<const float> scores);
    /// Chooses the next token from the scores [vocabulary] of what may follow, and changes them.
    void choose(std::span<float> scores);

    [[nodiscard]] State state() const noexcept { return state_; }
    [[nodiscard]] std::int32_t last_token() const noexcept { return tokens_.back().id; }

    // The following methods are for a window that has ended.
    [[nodiscard]] int begin() const noexcept { return setting_.begin; }
    /// The tokens of the result; what follows the last time is not among them.
    [[nodiscard]] std::span<const Token> tokens() const noexcept {
        return std::span(tokens_).first(length_);
    }
    [[nodiscard]] double average_log_probability() const;
    [[nodiscard]] float no_speech_probability() const noexcept { return no_speech_probability_; }
    /// Whether its last 32 tokens are too much alike.
    [[nodiscard]] bool repetitive() const;
    /// Silence is likely, and nothing else is: it has no text.
    [[nodiscard]] bool silent() const;
    /// Its end was not found, it repeats itself, or its scores are no numbers.
    [[nodiscard]] bool broken() const;
    /// Whether a higher temperature would have to be tried.
    [[nodiscard]] bool doubtful() const;
    /// Ticks until the next window.
    [[nodiscard]] int advance() const;
    /// Ticks after its last time that the next window will not decode, since the model takes them
    /// for silence.
    [[nodiscard]] int skipped() const;
    /// Ticks of the window up to its last time.
    [[nodiscard]] int last_time() const noexcept { return seek_; }

  private:
    void apply_rules(std::span<float> scores) const;
    void take(const Token& token);
    [[nodiscard]] float silence_threshold() const noexcept;
    [[nodiscard]] bool is_time(std::int32_t token) const noexcept {
        return token >= setting_.tokens.first_time;
    }

    Setting setting_;
    State state_ = State::kDecoding;
    std::vector<Token> tokens_;
    std::vector<std::int32_t> text_;  // the text tokens among them
    std::size_t length_ = 0;
    int seek_ = kTicksOfContext;
    bool has_time_ = false;
    float no_speech_probability_ = 0;
};

}  // namespace wavepool::whisper
