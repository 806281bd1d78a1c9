#include "models/whisper/checkpoint/vocabulary.h"

#include <algorithm>
#include <array>
#include <utility>

namespace wavepool::whisper {
namespace {

enum class Kind { kSpace, kLetter, kDigit, kOther };

Kind kind_of(char c) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == ' ' || (byte >= '\t' && byte <= '\r')) return Kind::kSpace;
    if (byte >= '0' && byte <= '9') return Kind::kDigit;
    // Letters beyond ASCII are told from other characters by nothing but their number.
    const auto lower = byte | 0x20U;
    if ((lower >= 'a' && lower <= 'z') || byte >= 0x80) return Kind::kLetter;
    return Kind::kOther;
}

std::size_t run_length(std::string_view text, std::size_t from) {
    std::size_t end = from;
    while (end < text.size() && kind_of(text[end]) == kind_of(text[from])) ++end;
    return end - from;
}

/// Length of the word at the start of `text`: a run of one kind with the space before it.
std::size_t word_length(std::string_view text) {
    static constexpr std::array<std::string_view, 7> kSuffixes{"'s", "'t",  "'re", "'ve",
                                                               "'m", "'ll", "'d"};
    for (const std::string_view suffix : kSuffixes) {
        if (text.starts_with(suffix)) return suffix.size();
    }
    if (kind_of(text.front()) != Kind::kSpace) return run_length(text, 0);
    const std::size_t spaces = run_length(text, 0);
    if (spaces == text.size()) return spaces;
    if (spaces > 1) return spaces - 1;
    return text.front() == ' ' ? 1 + run_length(text, 1) : 1;
}

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> tokens, std::int32_t end_token)
    : tokens_(std::move(tokens)) {
    tokens_.resize(std::min(tokens_.size(), static_cast<std::size_t>(end_token)));
    ids_.reserve(tokens_.size());
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
        if (!tokens_[id].empty()) ids_.emplace(tokens_[id], static_cast<std::int32_t>(id));
    }
}

std::string_view Vocabulary::bytes(std::int32_t token) const noexcept {
    if (token < 0 || static_cast<std::size_t>(token) >= tokens_.size()) return {};
    return tokens_[static_cast<std::size_t>(token)];
}

std::vector<std::int32_t> Vocabulary::encode(std::string_view text) const {
    std::vector<std::int32_t> tokens;
    while (!text.empty()) {
        const std::size_t length = word_length(text);
        encode_word(text.substr(0, length), tokens);
        text.remove_prefix(length);
    }
    return tokens;
}

void Vocabulary::encode_word(std::string_view word, std::vector<std::int32_t>& out) const {
    constexpr std::size_t kLongest = 512;
    while (!word.empty()) {
        std::size_t length = std::min(word.size(), kLongest);
        auto found = ids_.end();
        while (length > 0 && (found = ids_.find(word.substr(0, length))) == ids_.end()) --length;
        if (found != ids_.end()) out.push_back(found->second);
        word.remove_prefix(std::max<std::size_t>(length, 1));
    }
}

std::size_t Vocabulary::memory_bytes() const noexcept {
    std::size_t sum = tokens_.capacity() * sizeof(std::string);
    for (const std::string& token : tokens_) sum += token.size() > 15 ? token.capacity() : 0;
    constexpr std::size_t kNodeBytes = 40;
    return sum + ids_.size() * kNodeBytes + ids_.bucket_count() * sizeof(void*);
}

}  // namespace wavepool::whisper
