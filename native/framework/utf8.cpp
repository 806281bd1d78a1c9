#include "framework/utf8.h"

#include <algorithm>

namespace wavepool {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::string_view kWhiteSpace = " \t\r\n";

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

/// Bytes that a character with this first byte has; 0 for a byte that begins none.
std::size_t expected_length(unsigned char lead) {
    if (lead < 0x80) return 1;
    if (lead >= 0xC2 && lead <= 0xDF) return 2;
    if (lead >= 0xE0 && lead <= 0xEF) return 3;
    if (lead >= 0xF0 && lead <= 0xF4) return 4;
    return 0;
}

}  // namespace

std::size_t utf8_length(std::string_view text) noexcept {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned lead = byte(0);
    const std::size_t length = expected_length(byte(0));
    if (length == 0 || length > text.size()) return 0;
    for (std::size_t i = 1; i < length; ++i) {
        if (!is_continuation(text[i])) return 0;
    }
    // Overlong forms, surrogates and what lies beyond U+10FFFF.
    if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F) ||
        (lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F)) {
        return 0;
    }
    return length;
}

bool ends_inside_character(std::string_view text) noexcept {
    std::size_t tail = 0;
    while (tail < text.size() && tail < 3 && is_continuation(text[text.size() - 1 - tail])) ++tail;
    if (tail == text.size()) return false;
    const auto lead = static_cast<unsigned char>(text[text.size() - 1 - tail]);
    return expected_length(lead) > tail + 1;
}

char32_t code_point(std::string_view character) noexcept {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
    switch (character.size()) {
        case 1:
            return byte(0);
        case 2:
            return (byte(0) & 0x1FU) << 6 | (byte(1) & 0x3FU);
        case 3:
            return (byte(0) & 0x0FU) << 12 | (byte(1) & 0x3FU) << 6 | (byte(2) & 0x3FU);
        default:
            return (byte(0) & 0x07U) << 18 | (byte(1) & 0x3FU) << 12 | (byte(2) & 0x3FU) << 6 |
                   (byte(3) & 0x3FU);
    }
}

std::string valid_utf8(std::string_view text) {
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
        const std::size_t length = utf8_length(text);
        if (length > 0) {
            if (text.front() != '\0') result += text.substr(0, length);
            text.remove_prefix(length);
            continue;
        }
        // A broken character becomes one U+FFFD, however many of its bytes are there.
        text.remove_prefix(1);
        while (!text.empty() && is_continuation(text.front())) text.remove_prefix(1);
        result += kReplacement;
    }
    return result;
}

std::string_view trimmed(std::string_view text) noexcept {
    const std::size_t first = text.find_first_not_of(kWhiteSpace);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(kWhiteSpace) - first + 1);
}

}  // namespace wavepool
