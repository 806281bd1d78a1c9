#include "models/whisper/request/words.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "framework/utf8.h"

namespace wavepool::whisper {
namespace {

/// Tokens that begin and end at the boundary of a character.
struct Unit {
    std::string text;
    double start = 0;
    float probability = 0;  ///< sum over its tokens
    std::size_t tokens = 0;
};

std::vector<Unit> units_of(std::span<const TimedToken> tokens) {
    std::vector<Unit> units;
    bool complete = true;
    for (const TimedToken& token : tokens) {
        if (complete) units.push_back({.text = {}, .start = token.start});
        Unit& unit = units.back();
        unit.text += token.bytes;
        unit.probability += token.probability;
        ++unit.tokens;
        complete = !ends_inside_character(unit.text);
    }
    return units;
}

char32_t first_character(std::string_view text) {
    const std::size_t length = text.empty() ? 0 : utf8_length(text);
    return length == 0 ? 0 : code_point(text.substr(0, length));
}

/// Whether the script writes no spaces between words.
bool is_unspaced(char32_t c) {
    return (c >= 0x0E00 && c <= 0x0EFF) ||  // Thai, Lao
           (c >= 0x1000 && c <= 0x109F) ||  // Myanmar
           (c >= 0x1780 && c <= 0x17FF) ||  // Khmer
           (c >= 0x3041 && c <= 0x30FF) ||  // kana
           (c >= 0x3400 && c <= 0x9FFF) ||  // Han
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x20000 && c <= 0x3FFFF);
}

bool is_opening(char32_t c) {
    return c == '(' || c == '[' || c == '{' || c == 0xA1 || c == 0xBF || c == 0xAB || c == 0x2018 ||
           c == 0x201C || c == 0x300C || c == 0x300E || c == 0xFF08;
}

bool is_punctuation(char32_t c) {
    const bool ascii = (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
                       (c >= '{' && c <= '~');
    return ascii || (c >= 0xA1 && c <= 0xBF) || (c >= 0x2010 && c <= 0x205E) ||
           (c >= 0x3001 && c <= 0x3020) || (c >= 0xFF01 && c <= 0xFF0F) ||
           (c >= 0xFF1A && c <= 0xFF20) || (c >= 0xFF3B && c <= 0xFF40) ||
           (c >= 0xFF5B && c <= 0xFF65);
}

bool all_punctuation(std::string_view text) {
    while (!text.empty()) {
        const std::size_t length = std::max<std::size_t>(utf8_length(text), 1);
        if (!is_punctuation(first_character(text))) return false;
        text.remove_prefix(length);
    }
    return true;
}

bool begins_word(const Unit& unit, const std::vector<Unit>& words) {
    if (words.empty()) return true;
    const std::string_view text = trimmed(unit.text);
    const std::string_view before = trimmed(words.back().text);
    if (text.empty()) return false;
    const char32_t first = first_character(text);
    if (all_punctuation(text)) return is_opening(first);
    // A unit that has only opened a bracket so far belongs to the word that follows.
    if (all_punctuation(before) && is_opening(first_character(before))) return false;
    return unit.text.front() == ' ' || is_unspaced(first);
}

bool ends_sentence(std::string_view text) {
    for (const std::string_view mark : {".", "!", "?", "。", "！", "？", "…"}) {
        if (text.ends_with(mark)) return true;
    }
    return false;
}

/// Cuts silence out of the words that stand next to it.
void shorten(std::vector<TimedWord>& words) {
    constexpr double kLongestMedian = 0.7;
    std::vector<double> lengths;
    for (const TimedWord& word : words) {
        if (word.end > word.start) lengths.push_back(word.end - word.start);
    }
    if (lengths.empty()) return;
    const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
    std::ranges::nth_element(lengths, middle);
    const double longest = 2 * std::min(*middle, kLongestMedian);
    for (std::size_t i = 0; i < words.size(); ++i) {
        TimedWord& word = words[i];
        if (word.end - word.start <= longest) continue;
        // The silence is before the word, unless the word ends a sentence: then it is after it.
        if (i + 1 == words.size() || ends_sentence(word.text)) {
            word.end = word.start + longest;
        } else {
            word.start = word.end - longest;
        }
    }
}

}  // namespace

std::vector<TimedWord> words_of(std::span<const TimedToken> tokens, double begin, double end) {
    std::vector<Unit> merged;
    for (Unit& unit : units_of(tokens)) {
        if (begins_word(unit, merged)) {
            merged.push_back(std::move(unit));
        } else {
            const std::string_view text = trimmed(unit.text);
            merged.back().text += all_punctuation(text) ? text : std::string_view(unit.text);
            merged.back().probability += unit.probability;
            merged.back().tokens += unit.tokens;
        }
    }
    std::vector<TimedWord> words;
    double time = begin;
    for (const Unit& unit : merged) {
        std::string text = valid_utf8(trimmed(unit.text));
        if (text.empty()) continue;
        time = std::clamp(unit.start, time, std::max(time, end));
        if (!words.empty()) words.back().end = time;
        const float mean = unit.probability / static_cast<float>(unit.tokens);
        words.push_back({.text = std::move(text),
                         .start = time,
                         .end = std::max(time, end),
                         .probability = std::clamp(mean, 0.0F, 1.0F)});
    }
    shorten(words);
    return words;
}

}  // namespace wavepool::whisper
