#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "framework/tensors/tensor_file.h"

namespace wavepool {

/// What a Safetensors file declares, with every size and offset checked against the bytes that are
/// there: the tensors fill the file without gap or overlap.
struct SafetensorsHeader {
    std::map<std::string, std::string, std::less<>> metadata;
    PlacedTensors tensors;
};

/// The longest header that the format allows.
inline constexpr std::size_t kMaxSafetensorsHeaderBytes = 100'000'000;

/// Memory stays proportional to the header, which the file must hold, whatever its fields claim.
/// Throws Error{kModelFileInvalid} saying what is wrong.
[[nodiscard]] SafetensorsHeader parse_safetensors(std::span<const std::byte> file);

}  // namespace wavepool
