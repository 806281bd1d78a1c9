#pragma once

#include <cstdint>
#include <vector>

#include "kernels/packed/position_cache.h"

namespace wavepool::kernels {

/// All that a decoder keeps of each row. Rows change places without their contents moving.
class RowCaches {
  public:
    struct Row {
        PositionCache self;
        PositionCache cross;
        std::int64_t frames = 0;  ///< encoded
        std::int64_t tokens = 0;  ///< fed to the decoder
    };

    RowCaches(Arena& arena, std::int64_t rows, const PositionCache::Sizes& self,
              const PositionCache::Sizes& cross);

    [[nodiscard]] Row& row(std::int64_t index) noexcept {
        return rows_[static_cast<std::size_t>(index)];
    }
    void move_row(std::int64_t from, std::int64_t to) noexcept;

  private:
    std::vector<Row> rows_;
};

}  // namespace wavepool::kernels
