#pragma once

#include <cstdint>
#include <span>

#include "kernels/packed/arena.h"
#include "kernels/packed/byte_tiles.h"
#include "kernels/packed/packed_matrix.h"

namespace wavepool::kernels {

/// Columns to be multiplied: each as int8 with a scale of its own.
struct ByteColumns {
    std::span<std::int8_t> values;  ///< `stride` per column
    std::span<float> scales;
    std::span<std::int32_t> sums;  ///< of the integers of each column
    std::int64_t stride = 0;
};

/// Room for `count` columns of up to `length` values.
[[nodiscard]] ByteColumns take_byte_columns(Arena& arena, std::int64_t count, std::int64_t length);

/// A matrix of floats as bytes with a scale per row, and a bias per row that is added to products.
/// Rows are stored in panels of 16, padded with zeros, as the tile kernels read them: one above 0,
/// because they multiply unsigned bytes with signed ones.
class ByteMatrix {
  public:
    /// What `columns` must be a multiple of.
    static constexpr std::int64_t kColumnBlock = 16;

    ByteMatrix() = default;
    ByteMatrix(Arena& arena, std::int64_t rows, std::int64_t columns);

    [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
    [[nodiscard]] std::int64_t columns() const noexcept { return columns_; }
    [[nodiscard]] std::int64_t panels() const noexcept {
        return (rows_ + kPanelRows - 1) / kPanelRows;
    }

    /// Sets a row to the bytes that are nearest to these floats, of which the largest gets ±127.
    void set_row(std::int64_t row, std::span<const float> values) noexcept;
    void set_bias(std::int64_t first, std::span<const float> values) noexcept;
    /// The row as floats, without its bias.
    void read_row(std::int64_t row, std::span<float> out) const noexcept;

    [[nodiscard]] const std::uint8_t* panel(std::int64_t index) const noexcept {
        return values_.data() + index * kPanelRows * columns_;
    }
    [[nodiscard]] const float* scales() const noexcept { return scales_.data(); }
    [[nodiscard]] const float* biases() const noexcept { return biases_.data(); }

  private:
    [[nodiscard]] std::int64_t place(std::int64_t row, std::int64_t column) const noexcept;

    std::int64_t rows_ = 0;
    std::int64_t columns_ = 0;
    std::span<std::uint8_t> values_;
    std::span<float> scales_;
    std::span<float> biases_;
};

/// Fills column `index` with `length` floats, a multiple of 16.
void quantize_column(const float* x, std::int64_t length, const ByteColumns& columns,
                     std::int64_t index) noexcept;

/// Multiplies panels of a matrix with the first `count` columns and adds the bias; what a product
/// is does not depend on the other columns, nor on the kernel.
void multiply(const ByteTiles& tiles, const ByteMatrix& matrix, PanelRange panels,
              const ByteColumns& columns, std::int64_t count, Write write, Products out) noexcept;

}  // namespace wavepool::kernels
