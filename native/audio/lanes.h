#pragma once

#include <cstddef>
#include <cstring>

namespace wavepool::audio {

/// Eight f32 at once, in the vector registers that the machine has: sums run in one fixed order on
/// every machine.
inline constexpr std::size_t kLanes = 8;
using Lanes [[gnu::vector_size(kLanes * sizeof(float))]] = float;

inline Lanes load(const float* from) noexcept {
    Lanes value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

inline void store(const Lanes& value, float* to) noexcept { std::memcpy(to, &value, sizeof value); }

inline float sum_of(const Lanes& sum) noexcept {
    using Half [[gnu::vector_size(kLanes / 2 * sizeof(float))]] = float;
    const Half fours = __builtin_shufflevector(sum, sum, 0, 1, 2, 3) +
                       __builtin_shufflevector(sum, sum, 4, 5, 6, 7);
    const Half pairs = fours + __builtin_shufflevector(fours, fours, 1, 0, 3, 2);
    return pairs[0] + pairs[2];
}

}  // namespace wavepool::audio
