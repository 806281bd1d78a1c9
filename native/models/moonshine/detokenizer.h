#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace wavepool::moonshine {

/// Ids of the tokens that begin and end every text.
inline constexpr std::int32_t kStartToken = 1;
inline constexpr std::int32_t kEndToken = 2;

/// Turns tokens into text.
class Detokenizer {
  public:
    /// `pieces` is the vocabulary by id: text with "▁" for a space, "<0xNN>" for one byte, and
    /// "<<ST_n>>" for marks that never appear in text (as do ids 0 to 2).
    explicit Detokenizer(std::span<const std::string> pieces);

    /// Valid UTF-8 without white space at its ends: bytes that do not form a character become
    /// U+FFFD, ids outside the vocabulary nothing.
    [[nodiscard]] std::string text(std::span<const std::int32_t> tokens) const;

  private:
    std::vector<std::string> bytes_;  // the bytes that each id adds to the text
};

}  // namespace wavepool::moonshine
