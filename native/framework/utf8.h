#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace wavepool {

/// Bytes of the well-formed character at the start of `text`, which is not empty; 0 if there is
/// none.
[[nodiscard]] std::size_t utf8_length(std::string_view text) noexcept;

/// Whether `text` ends inside a character that more bytes could complete.
[[nodiscard]] bool ends_inside_character(std::string_view text) noexcept;

/// The code point of a well-formed character.
[[nodiscard]] char32_t code_point(std::string_view character) noexcept;

/// The text with U+FFFD in place of each broken character, and without NUL.
[[nodiscard]] std::string valid_utf8(std::string_view text);

/// The text without ASCII white space at either end.
[[nodiscard]] std::string_view trimmed(std::string_view text) noexcept;

}  // namespace wavepool
