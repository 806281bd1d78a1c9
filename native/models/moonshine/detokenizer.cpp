#include "models/moonshine/detokenizer.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace wavepool::moonshine {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";    // U+2581
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::string_view kWhiteSpace = " \t\r\n";

/// What a piece adds to the text.
std::string piece_bytes(std::string_view piece) {
    if (piece.starts_with("<<ST_")) return {};
    if (piece.size() == 6 && piece.starts_with("<0x") && piece.ends_with('>')) {
        unsigned value = 0;
        const char* end = piece.data() + 5;
        if (std::from_chars(piece.data() + 3, end, value, 16).ptr == end) {
            return {static_cast<char>(value)};
        }
    }
    std::string result;
    for (std::size_t at = 0; at < piece.size();) {
        if (piece.substr(at).starts_with(kSpaceMark)) {
            result += ' ';
            at += kSpaceMark.size();
        } else {
            result += piece[at++];
        }
    }
    return result;
}

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

/// Bytes of the well-formed character at the start of `text`, or 0.
std::size_t character_length(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned lead = byte(0);
    if (lead < 0x80) return 1;
    const std::size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                               : lead >= 0xE0 && lead <= 0xEF ? 3
                               : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                              : 0;
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

std::string valid_utf8(std::string_view text) {
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
        const std::size_t length = character_length(text);
        if (length > 0) {
            result += text.substr(0, length);
            text.remove_prefix(length);
            continue;
        }
        // One mark for a broken character, however many of its bytes are there.
        text.remove_prefix(1);
        while (!text.empty() && is_continuation(text.front())) text.remove_prefix(1);
        result += kReplacement;
    }
    return result;
}

}  // namespace

Detokenizer::Detokenizer(std::span<const std::string> pieces) {
    bytes_.reserve(pieces.size());
    for (const std::string& piece : pieces) {
        const bool special = bytes_.size() <= static_cast<std::size_t>(kEndToken);
        bytes_.push_back(special ? std::string{} : piece_bytes(piece));
    }
}

std::string Detokenizer::text(std::span<const std::int32_t> tokens) const {
    std::string joined;
    for (const std::int32_t token : tokens) {
        if (token >= 0 && static_cast<std::size_t>(token) < bytes_.size()) {
            joined += bytes_[static_cast<std::size_t>(token)];
        }
    }
    const std::size_t first = joined.find_first_not_of(kWhiteSpace);
    if (first == std::string::npos) return {};
    const std::size_t last = joined.find_last_not_of(kWhiteSpace);
    return valid_utf8(std::string_view(joined).substr(first, last - first + 1));
}

}  // namespace wavepool::moonshine
