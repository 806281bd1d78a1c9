#include "kernels/packed/position_cache.h"

#include "kernels/float8.h"

namespace wavepool::kernels {

PositionCache::PositionCache(Arena& arena, const Sizes& sizes)
    : heads_(sizes.heads),
      width_(sizes.head_width),
      key_stride_(padded_positions(sizes.positions)),
      // Reading the last value goes on for up to a vector.
      value_stride_(sizes.positions * sizes.head_width + kLanes),
      keys_(arena.take<std::uint16_t>(sizes.blocks * heads_ * width_ * key_stride_)),
      values_(arena.take<std::uint16_t>(sizes.blocks * heads_ * value_stride_)) {}

void PositionCache::set_key(std::int64_t block, std::int64_t head, std::int64_t position,
                            const float* key) noexcept {
    std::uint16_t* to = keys(block, head) + position;
    for (std::int64_t d = 0; d < width_; ++d) to[d * key_stride_] = to_half(key[d]);
}

void PositionCache::set_value(std::int64_t block, std::int64_t head, std::int64_t position,
                              const float* value) noexcept {
    std::uint16_t* to = values(block, head) + position * width_;
    for (std::int64_t d = 0; d < width_; ++d) to[d] = to_half(value[d]);
}

HeadCache<std::uint16_t> PositionCache::head(std::int64_t block, std::int64_t head,
                                             std::int64_t positions) const noexcept {
    return {.keys = keys(block, head),
            .key_stride = key_stride_,
            .values = values(block, head),
            .width = width_,
            .positions = positions};
}

std::uint16_t* PositionCache::keys(std::int64_t block, std::int64_t head) const noexcept {
    return keys_.data() + (block * heads_ + head) * width_ * key_stride_;
}

std::uint16_t* PositionCache::values(std::int64_t block, std::int64_t head) const noexcept {
    return values_.data() + (block * heads_ + head) * value_stride_;
}

}  // namespace wavepool::kernels
