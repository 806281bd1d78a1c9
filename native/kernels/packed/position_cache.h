#pragma once

#include <cstdint>
#include <span>

#include "kernels/packed/arena.h"
#include "kernels/packed/attention.h"

namespace wavepool::kernels {

/// Keys and values in f16 of all heads and blocks for some positions of one clip, laid out as
/// attend() reads them.
class PositionCache {
  public:
    struct Sizes {
        std::int64_t blocks = 0;
        std::int64_t heads = 0;
        std::int64_t head_width = 0;
        std::int64_t positions = 0;  ///< at most
    };

    PositionCache() = default;
    PositionCache(Arena& arena, const Sizes& sizes);

    /// Sets one position of one head from head_width floats each.
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

}  // namespace wavepool::kernels
