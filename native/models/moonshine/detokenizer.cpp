#include "models/moonshine/detokenizer.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "framework/utf8.h"

namespace wavepool::moonshine {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

/// The bytes that a piece adds to the text.
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
    return valid_utf8(trimmed(joined));
}

}  // namespace wavepool::moonshine
