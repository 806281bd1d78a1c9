#include "kernels/packed/packed_matrix.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <limits>

#include "kernels/float8.h"
#include "kernels/packed/tiled_product.h"

namespace wavepool::kernels {
namespace {

/// Below it a column counts as zeros: its inverse would not be finite.
constexpr float kLeast = 1e-30F;

/// Scales the sums of one panel and writes them.
class PanelWriter {
  public:
    PanelWriter(const PackedMatrix& matrix, std::int64_t panel, const Columns& columns, Write write,
                Products out)
        : columns_(columns), write_(write), out_(out) {
        const std::int64_t row = panel * kPanelRows;
        for (int half = 0; half < 2; ++half) {
            scale_[half] = load(matrix.scales() + row + half * kLanes);
            offset_[half] = load(matrix.offsets() + row + half * kLanes);
        }
    }

    void write(std::int64_t column, const std::int32_t* sums) const noexcept {
        const auto at = static_cast<std::size_t>(column);
        const Float8 scale = broadcast(columns_.scales[at]);
        const Float8 total = broadcast(columns_.sums[at]);
        float* target = out_.values + column * out_.stride;
        for (int half = 0; half < 2; ++half) {
            const Float8 sum{_mm256_cvtepi32_ps(
                _mm256_load_si256(reinterpret_cast<const __m256i*>(sums + half * kLanes)))};
            Float8 product = scale * fused(scale_[half], sum, offset_[half] * total);
            float* place = target + half * kLanes;
            if (write_ == Write::kAdd) product = product + load(place);
            store(place, product);
        }
    }

  private:
    const Columns& columns_;
    Write write_;
    Products out_;
    Float8 scale_[2];
    Float8 offset_[2];
};

}  // namespace

Columns take_columns(Arena& arena, std::int64_t count, std::int64_t length) {
    return {.values = arena.take<std::int16_t>(count * length),
            .scales = arena.take<float>(count),
            .sums = arena.take<float>(count),
            .stride = length};
}

PackedMatrix::PackedMatrix(Arena& arena, std::int64_t rows, std::int64_t columns)
    : rows_(rows),
      columns_(columns),
      values_(arena.take<std::int8_t>(panels() * kPanelRows * columns)),
      scales_(arena.take<float>(panels() * kPanelRows)),
      offsets_(arena.take<float>(panels() * kPanelRows)) {}

std::int64_t PackedMatrix::place(std::int64_t row, std::int64_t column) const noexcept {
    const std::int64_t pair = row / kPanelRows * (columns_ / 2) + column / 2;
    return (pair * kPanelRows + row % kPanelRows) * 2 + column % 2;
}

void PackedMatrix::set_rows(std::int64_t first, std::span<const std::int8_t> values, float scale,
                            float offset) noexcept {
    const std::int64_t count = static_cast<std::int64_t>(values.size()) / columns_;
    for (std::int64_t row = first; row < first + count; ++row) {
        const std::int8_t* from = values.data() + (row - first) * columns_;
        std::int8_t* to = values_.data() + place(row, 0);
        for (std::int64_t column = 0; column < columns_; column += 2) {
            to[column * kPanelRows] = from[column];
            to[column * kPanelRows + 1] = from[column + 1];
        }
        scales_[static_cast<std::size_t>(row)] = scale;
        offsets_[static_cast<std::size_t>(row)] = offset;
    }
}

void PackedMatrix::read_row(std::int64_t row, std::span<float> out) const noexcept {
    const float scale = scales_[static_cast<std::size_t>(row)];
    const float offset = offsets_[static_cast<std::size_t>(row)];
    for (std::int64_t column = 0; column < columns_; ++column) {
        const auto value =
            static_cast<float>(values_[static_cast<std::size_t>(place(row, column))]);
        out[static_cast<std::size_t>(column)] = scale * value + offset;
    }
}

float PackedMatrix::column_limit() const noexcept {
    constexpr std::int64_t kLargestWeight = 128;
    const std::int64_t limit =
        std::numeric_limits<std::int32_t>::max() / (kLargestWeight * columns_);
    return static_cast<float>(
        std::min<std::int64_t>(limit, std::numeric_limits<std::int16_t>::max()));
}

void quantize_column(const PackedMatrix& matrix, const float* x, const Columns& columns,
                     std::int64_t index) noexcept {
    const std::int64_t length = matrix.columns();
    const auto at = static_cast<std::size_t>(index);
    std::int16_t* to = columns.values.data() + index * columns.stride;
    const float most = largest_magnitude(x, length);
    const float limit = matrix.column_limit();
    const Float8 inverse = broadcast(most > kLeast ? limit / most : 0.0F);
    columns.scales[at] = most > kLeast ? most / limit : 0.0F;
    __m256i sum = _mm256_setzero_si256();
    const __m256i ones = _mm256_set1_epi16(1);
    std::int64_t i = 0;
    for (; i + 2 * kLanes <= length; i += 2 * kLanes) {
        const __m256i first = _mm256_cvtps_epi32((load(x + i) * inverse).lanes);
        const __m256i second = _mm256_cvtps_epi32((load(x + i + kLanes) * inverse).lanes);
        // Packing goes by halves of the vectors; the permutation puts them in order.
        const __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi32(first, second), 0xD8);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), both);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(both, ones));
    }
    alignas(32) std::array<std::int32_t, kLanes> lanes;
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes.data()), sum);
    std::int32_t total = 0;
    for (const std::int32_t lane : lanes) total += lane;
    columns.sums[at] = static_cast<float>(total);
}

void multiply(const Tiles& tiles, const PackedMatrix& matrix, PanelRange panels,
              const Columns& columns, std::int64_t count, Write write, Products out) noexcept {
    for (std::int64_t panel = panels.begin; panel < panels.end; ++panel) {
        const PanelWriter writer(matrix, panel, columns, write, out);
        multiply_panel(tiles, matrix.panel(panel), matrix.columns(), columns.values.data(),
                       columns.stride, count,
                       [&writer](std::int64_t column, const std::int32_t* sums) {
                           writer.write(column, sums);
                       });
        out.values += kPanelRows;
    }
}

}  // namespace wavepool::kernels
