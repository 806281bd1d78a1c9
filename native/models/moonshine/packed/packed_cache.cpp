#include "models/moonshine/packed/packed_cache.h"

#include <immintrin.h>

#include <utility>

#include "models/moonshine/packed/vectors.h"

namespace wavepool::moonshine {
namespace {

std::uint16_t half(float value) noexcept { return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT); }

}  // namespace

PositionCache::PositionCache(Arena& arena, const Config& config, std::int64_t capacity)
    : heads_(config.heads),
      width_(config.head_width()),
      key_stride_(padded_positions(capacity)),
      // Reading the last value goes on for up to a vector.
      value_stride_(capacity * config.head_width() + kLanes),
      keys_(arena.take<std::uint16_t>(config.decoder_blocks * heads_ * width_ * key_stride_)),
      values_(arena.take<std::uint16_t>(config.decoder_blocks * heads_ * value_stride_)) {}

void PositionCache::set_key(std::int64_t block, std::int64_t head, std::int64_t position,
                            const float* key) noexcept {
    std::uint16_t* to = keys(block, head) + position;
    for (std::int64_t d = 0; d < width_; ++d) to[d * key_stride_] = half(key[d]);
}

void PositionCache::set_value(std::int64_t block, std::int64_t head, std::int64_t position,
                              const float* value) noexcept {
    std::uint16_t* to = values(block, head) + position * width_;
    for (std::int64_t d = 0; d < width_; ++d) to[d] = half(value[d]);
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

PackedCache::PackedCache(Arena& arena, const Config& config, std::int64_t rows, std::int64_t tokens,
                         std::int64_t frames) {
    rows_.reserve(static_cast<std::size_t>(rows));
    for (std::int64_t i = 0; i < rows; ++i) {
        rows_.push_back({.self = PositionCache(arena, config, tokens),
                         .cross = PositionCache(arena, config, frames)});
    }
}

void PackedCache::move_row(std::int64_t from, std::int64_t to) noexcept {
    if (from != to) std::swap(row(from), row(to));
}

}  // namespace wavepool::moonshine
