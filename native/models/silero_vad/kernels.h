#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace wavepool::silero_vad {

/// Output channels that one tile of a packed matrix computes together.
inline constexpr std::size_t kTileOutputs = 16;

/// One cache line.
struct alignas(64) Line {
    float values[kTileOutputs];
};

/// A matrix and its bias, laid out for `multiply`: tiles of 16 outputs, and in each tile one line
/// per input. Outputs are filled up with zeros to whole tiles. Immutable after construction.
class PackedMatrix {
  public:
    PackedMatrix() = default;
    /// `weights` is row-major, outputs × inputs; `bias` has one value per output.
    PackedMatrix(std::span<const float> weights, std::span<const float> bias, std::size_t inputs);

    [[nodiscard]] std::size_t inputs() const noexcept { return inputs_; }
    [[nodiscard]] std::size_t tiles() const noexcept { return bias_.size(); }
    [[nodiscard]] std::size_t outputs() const noexcept { return tiles() * kTileOutputs; }
    [[nodiscard]] const Line* tile(std::size_t index) const noexcept {
        return lines_.data() + index * inputs_;
    }
    [[nodiscard]] const Line* bias() const noexcept { return bias_.data(); }
    [[nodiscard]] std::size_t bytes() const noexcept {
        return (lines_.size() + bias_.size()) * sizeof(Line);
    }
    /// What bytes() is for a matrix of this size.
    [[nodiscard]] static constexpr std::size_t bytes(std::size_t outputs,
                                                     std::size_t inputs) noexcept {
        const std::size_t tiles = (outputs + kTileOutputs - 1) / kTileOutputs;
        return tiles * (inputs + 1) * sizeof(Line);
    }

  private:
    std::size_t inputs_ = 0;
    std::vector<Line> lines_;
    std::vector<Line> bias_;
};

/// Columns of floats in memory: column i begins at data + i · stride.
struct ConstColumns {
    const float* data;
    std::size_t stride;
};
struct Columns {
    float* data;
    std::size_t stride;
};

struct Product {
    /// Inputs of the matrix that take part: [first_input, first_input + inputs). A convolution
    /// leaves out the taps that lie in its zero padding.
    std::size_t first_input = 0;
    std::size_t inputs = 0;
    bool rectified =
        false;             ///< the inputs are outputs of a rectifier, a multiple of 8, at most 512
    bool rectify = false;  ///< max(0, ·) at the end
    bool accumulate = false;  ///< start from what `out` holds instead of the bias
};

/// out[column] = matrix · in[column] for `count` columns. Each output is one chain of fused
/// multiply-adds in the order of the inputs, so a column's bits do not depend on the other columns.
/// Many rectified inputs are zero, and mostly the same ones: where neighboring columns agree, they
/// are left out, which no sum notices.
/// Writes matrix.outputs() floats per column.
void multiply(const PackedMatrix& matrix, const Product& product, ConstColumns in, Columns out,
              std::size_t count) noexcept;

/// One LSTM step of `units` units (a multiple of 8). `gates` holds the sums of input, forget, cell
/// and output gate, `units` each.
void lstm_step(const float* gates, float* hidden, float* cell, std::size_t units) noexcept;

/// sigmoid(Σ weight · max(0, value) + bias) over a multiple of 8 values.
[[nodiscard]] float rectified_probability(std::span<const float> values, const float* weight,
                                          float bias) noexcept;

}  // namespace wavepool::silero_vad
