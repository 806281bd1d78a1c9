#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/tensors/tensor_file.h"

namespace wavepool {

inline constexpr std::uint32_t kGgmlBinMagic = 0x67676d6c;

/// The integers that a ggml file of a Whisper checkpoint begins with, in their order there, under
/// the metadata keys that its source gives them.
inline constexpr std::array<std::string_view, 11> kGgmlBinParameters{
    "whisper.vocab_size",   "whisper.audio_context", "whisper.audio_state", "whisper.audio_heads",
    "whisper.audio_layers", "whisper.text_context",  "whisper.text_state",  "whisper.text_heads",
    "whisper.text_layers",  "whisper.mel_bins",      "whisper.file_type",
};
inline constexpr std::string_view kGgmlBinTokens = "tokenizer.tokens";
/// f32 [mel bins, frequencies]
inline constexpr std::string_view kGgmlBinMelFilters = "mel_filters";

/// What such a file declares, with every count, length and offset checked against the bytes that
/// are there; what the numbers mean is for the family to check.
struct GgmlBinHeader {
    std::array<std::int32_t, kGgmlBinParameters.size()> parameters{};
    std::vector<std::string> tokens;  ///< any bytes
    PlacedTensors tensors;            ///< the mel filters are one of them
};

/// Memory stays proportional to the file whatever its fields claim. Throws
/// Error{kModelFileInvalid} saying what is wrong.
[[nodiscard]] GgmlBinHeader parse_ggml_bin(std::span<const std::byte> file);

}  // namespace wavepool
