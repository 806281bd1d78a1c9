#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "framework/tensors/tensor_source.h"
#include "kernels/packed/arena.h"
#include "kernels/packed/packed_matrix.h"
#include "models/moonshine/weights.h"

namespace wavepool::moonshine {

using namespace kernels;

struct PackedEncoderBlock {
    std::span<float> attention_norm;
    PackedMatrix query_key_value;
    PackedMatrix attention_out;
    std::span<float> mlp_norm;
    PackedMatrix up;
    std::span<float> up_bias;
    PackedMatrix down;
    std::span<float> down_bias;
};

struct PackedDecoderBlock {
    std::span<float> self_norm;
    PackedMatrix self_query_key_value;
    PackedMatrix self_out;
    std::span<float> cross_norm;
    PackedMatrix cross_query;
    PackedMatrix cross_key_value;
    PackedMatrix cross_out;
    std::span<float> mlp_norm;
    PackedMatrix up;  ///< value rows, then gate rows
    std::span<float> up_bias;
    PackedMatrix down;
    std::span<float> down_bias;
};

/// The weights of one checkpoint with all its matrices in int8, exactly as they are stored there.
/// Convolution weights are laid out [out][tap][in]. Immutable after loading.
class PackedWeights {
  public:
    /// Null for checkpoints that cannot be packed: with matrices that are not integers, or of sizes
    /// that the kernels do not take. Throws Error{kModelFileInvalid}, std::bad_alloc.
    [[nodiscard]] static std::shared_ptr<const PackedWeights> load(const TensorSource& source,
                                                                   Allocation allocation);

    PackedWeights(Description from, Allocation allocation);

    Description description;
    [[nodiscard]] const Config& config() const noexcept { return description.config; }

    PackedMatrix conv1;  ///< taps padded to kConv1Taps
    std::span<float> group_norm;
    std::span<float> group_norm_bias;
    PackedMatrix conv2;
    std::span<float> conv2_bias;
    PackedMatrix conv3;
    std::span<float> conv3_bias;
    std::vector<PackedEncoderBlock> encoder;
    std::span<float> encoder_norm;

    PackedMatrix embedding;  ///< also the output projection
    std::vector<PackedDecoderBlock> decoder;
    std::span<float> decoder_norm;

    [[nodiscard]] std::size_t bytes() const noexcept;

  private:
    friend class PackedLoader;
    Arena arena_;
};

}  // namespace wavepool::moonshine
