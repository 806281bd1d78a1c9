#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/moonshine/packed/arena.h"
#include "models/moonshine/packed/attention.h"
#include "models/moonshine/weights.h"

namespace wavepool::moonshine {

/// Keys and values in f16 of all heads and blocks for some positions of one clip, laid out as
/// attend() reads them.
class PositionCache {
  public:
    PositionCache() = default;
    PositionCache(Arena& arena, const Config& config, std::int64_t capacity);

    /// Sets one position of one head from head_width() floats each.
    void set_key(std::int64_t block, std::int64_t head, std::int64_t position,
                 const float* key) noexcept;
    void set_value(std::int64_t block, std::int64_t head, std::int64_t position,
                   const float* value) noexcept;

    /// The first positions of one head.
    [[nodiscard]] HeadCache<std::uint16_t> head(std::int64_t block, std::int64_t head,
                                                std::int64_t positions) const noexcept;

  private:
    [[nodiscard]] std::uint16_t* keys(std::int64_t block, std::int64_t head) const noexcept;
    [[nodiscard]] std::uint16_t* values(std::int64_t block, std::int64_t head) const noexcept;

    std::int64_t heads_ = 0;
    std::int64_t width_ = 0;  ///< of a head
    std::int64_t key_stride_ = 0;
    std::int64_t value_stride_ = 0;  ///< of a head
    std::span<std::uint16_t> keys_;
    std::span<std::uint16_t> values_;
};

/// All that the decoder keeps of each row. Rows change places without their contents moving.
class PackedCache {
  public:
    struct Row {
        PositionCache self;
        PositionCache cross;
        std::int64_t frames = 0;  ///< encoded
        std::int64_t tokens = 0;  ///< fed to the decoder
    };

    PackedCache(Arena& arena, const Config& config, std::int64_t rows, std::int64_t tokens,
                std::int64_t frames);

    [[nodiscard]] Row& row(std::int64_t index) noexcept {
        return rows_[static_cast<std::size_t>(index)];
    }
    void move_row(std::int64_t from, std::int64_t to) noexcept;

  private:
    std::vector<Row> rows_;
};

}  // namespace wavepool::moonshine
