#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/tensors/tensor_source.h"
#include "kernels/packed/arena.h"
#include "kernels/packed/tiles.h"

namespace wavepool::kernels {

/// Columns to be multiplied: each as int16 with a scale of its own.
struct Columns {
    std::span<std::int16_t> values;  ///< `stride` per column
    std::span<float> scales;
    std::span<float> sums;  ///< of the integers of each column
    std::int64_t stride = 0;
};

/// Room for `count` columns of up to `length` values.
[[nodiscard]] Columns take_columns(Arena& arena, std::int64_t count, std::int64_t length);

/// A matrix of int8 with the exact integers of its source: element = scale · q + offset, with a
/// scale and an offset per row, so that matrices of several sources can be stacked. Rows are stored
/// in panels of 16, padded with zeros, as the tile kernels read them.
class PackedMatrix {
  public:
    PackedMatrix() = default;
    /// `columns` is a multiple of 8.
    PackedMatrix(Arena& arena, std::int64_t rows, std::int64_t columns);

    [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
    [[nodiscard]] std::int64_t columns() const noexcept { return columns_; }
    [[nodiscard]] std::int64_t panels() const noexcept {
        return (rows_ + kPanelRows - 1) / kPanelRows;
    }

    /// Sets rows from `first` on: `values` is [rows][columns].
    void set_rows(std::int64_t first, std::span<const std::int8_t> values, float scale,
                  float offset) noexcept;
    /// The row as floats.
    void read_row(std::int64_t row, std::span<float> out) const noexcept;

    /// The largest magnitude of a column's integers that cannot overflow a sum in int32.
    [[nodiscard]] float column_limit() const noexcept;

    [[nodiscard]] const std::int8_t* panel(std::int64_t index) const noexcept {
        return values_.data() + index * kPanelRows * columns_;
    }
    [[nodiscard]] const float* scales() const noexcept { return scales_.data(); }
    [[nodiscard]] const float* offsets() const noexcept { return offsets_.data(); }

  private:
    [[nodiscard]] std::int64_t place(std::int64_t row, std::int64_t column) const noexcept;

    std::int64_t rows_ = 0;
    std::int64_t columns_ = 0;
    std::span<std::int8_t> values_;
    std::span<float> scales_;
    std::span<float> offsets_;
};

/// Fills column `index` for a product with `matrix` from matrix.columns() floats.
void quantize_column(const PackedMatrix& matrix, const float* x, const Columns& columns,
                     std::int64_t index) noexcept;

enum class Write { kReplace, kAdd };

/// Where products go: of column i to values + i · stride, from the first row of the first panel on.
/// Written by whole panels.
struct Products {
    float* values = nullptr;
    std::int64_t stride = 0;
};

struct PanelRange {
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

/// Multiplies panels of a matrix with the first `count` columns; what a product is does not depend
/// on the other columns, nor on the kernel.
void multiply(const Tiles& tiles, const PackedMatrix& matrix, PanelRange panels,
              const Columns& columns, std::int64_t count, Write write, Products out) noexcept;

}  // namespace wavepool::kernels
