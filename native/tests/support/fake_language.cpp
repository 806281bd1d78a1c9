#include "tests/support/fake_language.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <sstream>
#include <string_view>
#include <utility>

#include "framework/error.h"

namespace wavepool::fake {
namespace {

constexpr float kProbability = 0.9F;
constexpr std::string_view kEcho = "echo ";

template <typename T>
T option(const TaskRequest& request, std::string_view name, T otherwise) {
    const auto found = request.options.find(name);
    const T* value = found == request.options.end() ? nullptr : std::get_if<T>(&found->second);
    return value == nullptr ? std::move(otherwise) : *value;
}

std::vector<std::string> words_of(const std::string& text) {
    std::istringstream stream(text);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    return words;
}

std::string joined(const std::vector<TimedWord>& words) {
    std::string text;
    for (const TimedWord& word : words) text += (text.empty() ? "" : " ") + word.text;
    return text;
}

TimedPiece piece_of(std::vector<TimedWord> words, bool keep_words) {
    TimedPiece piece{
        .text = joined(words),
        .start = words.front().start,
        .end = words.back().end,
        .average_log_probability = std::log(kProbability),
        .words = {},
    };
    if (keep_words) piece.words = std::move(words);
    return piece;
}

}  // namespace

std::vector<std::string> languages_of(const TensorSource& file) {
    if (!file.metadata("fake.languages")) return {};
    std::istringstream list(file.string("fake.languages"));
    std::vector<std::string> languages;
    for (std::string language; std::getline(list, language, ',');) languages.push_back(language);
    return languages;
}

void speak(const std::vector<std::string>& languages, const TaskRequest& request,
           std::uint64_t checksum, TaskResult& result) {
    if (languages.empty()) return;
    result.language = option(request, "language", languages[checksum % languages.size()]);
    if (std::ranges::find(languages, result.language) == languages.end())
        throw Error(ErrorCode::kInvalidRequest, "the fake does not know " + result.language);
    if (option(request, "translate", false)) result.text = "translated " + result.text;
    const std::string prompt = option(request, "prompt", std::string());
    if (prompt.starts_with(kEcho))
        result.text += " [" + result.language + " " + prompt.substr(kEcho.size()) + "]";

    const std::vector<std::string> texts = words_of(result.text);
    const double seconds = static_cast<double>(request.audio.count) / kSampleRate;
    std::vector<TimedWord> words;
    for (std::size_t i = 0; i < texts.size(); ++i) {
        const auto share = [&](std::size_t at) {
            return seconds * static_cast<double>(at) / static_cast<double>(texts.size());
        };
        words.push_back({texts[i], share(i), share(i + 1), kProbability});
    }
    const bool keep_words = option(request, "words", false);
    result.pieces.push_back(piece_of({words.front()}, keep_words));
    result.pieces.push_back(piece_of({words.begin() + 1, words.end()}, keep_words));
}

}  // namespace wavepool::fake
