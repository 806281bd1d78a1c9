#include "models/whisper/packed/packed_cache.h"

#include <utility>

#include "models/whisper/packed/packed_weights.h"

namespace wavepool::whisper {

PackedCache::PackedCache(Arena& arena, const Parameters& sizes, std::int64_t rows) {
    const auto cache = [&](std::int64_t positions) {
        return PositionCache(arena, {.blocks = sizes.text_layers,
                                     .heads = sizes.text_heads,
                                     .head_width = kHeadWidth,
                                     .positions = positions});
    };
    rows_.reserve(static_cast<std::size_t>(rows));
    for (std::int64_t i = 0; i < rows; ++i) {
        PositionCache self = cache(kTextContext);
        rows_.push_back({.self = self, .cross = cache(kAudioContext)});
    }
}

void PackedCache::move_row(std::int64_t from, std::int64_t to) noexcept {
    if (from != to) std::swap(row(from), row(to));
}

}  // namespace wavepool::whisper
