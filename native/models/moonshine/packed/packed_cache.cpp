#include "models/moonshine/packed/packed_cache.h"

#include <utility>

namespace wavepool::moonshine {

PackedCache::PackedCache(Arena& arena, const Config& config, std::int64_t rows, std::int64_t tokens,
                         std::int64_t frames) {
    const auto cache = [&](std::int64_t positions) {
        return PositionCache(arena, {.blocks = config.decoder_blocks,
                                     .heads = config.heads,
                                     .head_width = config.head_width(),
                                     .positions = positions});
    };
    rows_.reserve(static_cast<std::size_t>(rows));
    for (std::int64_t i = 0; i < rows; ++i) {
        PositionCache self = cache(tokens);
        rows_.push_back({.self = self, .cross = cache(frames)});
    }
}

void PackedCache::move_row(std::int64_t from, std::int64_t to) noexcept {
    if (from != to) std::swap(row(from), row(to));
}

}  // namespace wavepool::moonshine
