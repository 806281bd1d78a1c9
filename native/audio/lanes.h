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

inline float sum_of(const Lanes& sum) noexcept {
    return ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
}

}  // namespace wavepool::audio
