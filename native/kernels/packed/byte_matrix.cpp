#include "kernels/packed/byte_matrix.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/float8.h"
#include "kernels/packed/tiled_product.h"

namespace wavepool::kernels {
namespace {

/// Below it a column or row counts as zeros: its inverse would not be finite.
constexpr float kLeast = 1e-30F;

constexpr float kMostByte = 127;
/// What weights are stored with on top: unsigned, as the kernels want one factor.
constexpr std::int32_t kLift = 128;

/// Scales the sums of one panel and writes them.
class PanelWriter {
  public:
    PanelWriter(const ByteMatrix& matrix, std::int64_t panel, const ByteColumns& columns,
                Write write, Products out)
        : columns_(columns), write_(write), out_(out) {
        const std::int64_t row = panel * kPanelRows;
        for (int half = 0; half < 2; ++half) {
            scale_[half] = load(matrix.scales() + row + half * kLanes);
            bias_[half] = load(matrix.biases() + row + half * kLanes);
        }
    }

    void write(std::int64_t column, const std::int32_t* sums) const noexcept {
        const auto at = static_cast<std::size_t>(column);
        const Float8 scale = broadcast(columns_.scales[at]);
        const __m256i lift = _mm256_set1_epi32(kLift * columns_.sums[at]);
        float* target = out_.values + column * out_.stride;
        for (int half = 0; half < 2; ++half) {
            const __m256i sum = _mm256_sub_epi32(
                _mm256_load_si256(reinterpret_cast<const __m256i*>(sums + half * kLanes)), lift);
            Float8 product =
                fused(scale_[half] * scale, Float8{_mm256_cvtepi32_ps(sum)}, bias_[half]);
            float* place = target + half * kLanes;
            if (write_ == Write::kAdd) product = product + load(place);
            store(place, product);
        }
    }

  private:
    const ByteColumns& columns_;
    Write write_;
    Products out_;
    Float8 scale_[2];
    Float8 bias_[2];
};

}  // namespace

ByteColumns take_byte_columns(Arena& arena, std::int64_t count, std::int64_t length) {
    return {.values = arena.take<std::int8_t>(count * length),
            .scales = arena.take<float>(count),
            .sums = arena.take<std::int32_t>(count),
            .stride = length};
}

ByteMatrix::ByteMatrix(Arena& arena, std::int64_t rows, std::int64_t columns)
    : rows_(rows),
      columns_(columns),
      values_(arena.take<std::uint8_t>(panels() * kPanelRows * columns)),
      scales_(arena.take<float>(panels() * kPanelRows)),
      biases_(arena.take<float>(panels() * kPanelRows)) {}

std::int64_t ByteMatrix::place(std::int64_t row, std::int64_t column) const noexcept {
    const std::int64_t quad = row / kPanelRows * (columns_ / 4) + column / 4;
    return (quad * kPanelRows + row % kPanelRows) * 4 + column % 4;
}

void ByteMatrix::set_row(std::int64_t row, std::span<const float> values) noexcept {
    const float most = largest_magnitude(values.data(), columns_);
    const float inverse = most > kLeast ? kMostByte / most : 0.0F;
    scales_[static_cast<std::size_t>(row)] = most > kLeast ? most / kMostByte : 0.0F;
    for (std::int64_t column = 0; column < columns_; ++column) {
        const float nearest = std::nearbyint(values[static_cast<std::size_t>(column)] * inverse);
        values_[static_cast<std::size_t>(place(row, column))] =
            static_cast<std::uint8_t>(static_cast<std::int32_t>(nearest) + kLift);
    }
}

void ByteMatrix::set_bias(std::int64_t first, std::span<const float> values) noexcept {
    std::ranges::copy(values, biases_.begin() + first);
}

void ByteMatrix::read_row(std::int64_t row, std::span<float> out) const noexcept {
    const float scale = scales_[static_cast<std::size_t>(row)];
    for (std::int64_t column = 0; column < columns_; ++column) {
        const std::int32_t value = values_[static_cast<std::size_t>(place(row, column))] - kLift;
        out[static_cast<std::size_t>(column)] = scale * static_cast<float>(value);
    }
}

void quantize_column(const float* x, std::int64_t length, const ByteColumns& columns,
                     std::int64_t index) noexcept {
    const auto at = static_cast<std::size_t>(index);
    std::int8_t* to = columns.values.data() + index * columns.stride;
    const float most = largest_magnitude(x, length);
    const Float8 inverse = broadcast(most > kLeast ? kMostByte / most : 0.0F);
    columns.scales[at] = most > kLeast ? most / kMostByte : 0.0F;
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i sum = _mm256_setzero_si256();
    for (std::int64_t i = 0; i < length; i += 2 * kLanes) {
        const __m256i first = _mm256_cvtps_epi32((load(x + i) * inverse).lanes);
        const __m256i second = _mm256_cvtps_epi32((load(x + i + kLanes) * inverse).lanes);
        // Packing goes by halves of the vectors; the permutation puts them in order.
        const __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi32(first, second), 0xD8);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(both, ones));
        const __m128i bytes =
            _mm_packs_epi16(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), bytes);
    }
    alignas(32) std::array<std::int32_t, kLanes> lanes;
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes.data()), sum);
    std::int32_t total = 0;
    for (const std::int32_t lane : lanes) total += lane;
    columns.sums[at] = total;
}

void multiply(const ByteTiles& tiles, const ByteMatrix& matrix, PanelRange panels,
              const ByteColumns& columns, std::int64_t count, Write write, Products out) noexcept {
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
