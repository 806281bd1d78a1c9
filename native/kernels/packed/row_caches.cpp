#include "kernels/packed/row_caches.h"

#include <utility>

namespace wavepool::kernels {

RowCaches::RowCaches(Arena& arena, std::int64_t rows, const PositionCache::Sizes& self,
                     const PositionCache::Sizes& cross) {
    rows_.reserve(static_cast<std::size_t>(rows));
    for (std::int64_t i = 0; i < rows; ++i) {
        PositionCache own(arena, self);
        rows_.push_back({.self = own, .cross = PositionCache(arena, cross)});
    }
}

void RowCaches::move_row(std::int64_t from, std::int64_t to) noexcept {
    if (from != to) std::swap(row(from), row(to));
}

}  // namespace wavepool::kernels
