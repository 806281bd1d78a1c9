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

/// A vector of the lanes of `from` with these indices.
template <int... Index, typename Vector>
inline auto shuffled(const Vector& from) noexcept {
#if __has_builtin(__builtin_shufflevector)
    return __builtin_shufflevector(from, from, Index...);
#else  // GCC before 12
    using Shuffled [[gnu::vector_size(sizeof...(Index) * sizeof(float))]] = float;
    return Shuffled{from[Index]...};
#endif
}

inline float sum_of(const Lanes& sum) noexcept {
    const auto fours = shuffled<0, 1, 2, 3>(sum) + shuffled<4, 5, 6, 7>(sum);
    const auto pairs = fours + shuffled<1, 0, 3, 2>(fours);
    return pairs[0] + pairs[2];
}

}  // namespace wavepool::audio
