#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace wavepool::whisper {

/// The text tokens of a model: byte-level pieces, of which one may be a part of a character.
class Vocabulary {
  public:
    /// `tokens` are the bytes of each token, by id. Those from `end_token` on are not text.
    Vocabulary(std::vector<std::string> tokens, std::int32_t end_token);
    Vocabulary(const Vocabulary&) = delete;
    Vocabulary& operator=(const Vocabulary&) = delete;

    /// The bytes of a token; none for one that is not text.
    [[nodiscard]] std::string_view bytes(std::int32_t token) const noexcept;

    /// Text as tokens: words are cut as the tokenizer of GPT-2 does it, then each into the longest
    /// pieces from its start, as whisper.cpp does. Bytes without a token are left out.
    [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;

    [[nodiscard]] std::size_t memory_bytes() const noexcept;

  private:
    void encode_word(std::string_view word, std::vector<std::int32_t>& out) const;

    std::vector<std::string> tokens_;
    std::unordered_map<std::string_view, std::int32_t> ids_;
};

}  // namespace wavepool::whisper
