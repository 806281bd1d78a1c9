#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/packed/byte_matrix.h"
#include "models/whisper/checkpoint/checkpoint.h"
#include "models/whisper/packed/layers.h"
#include "models/whisper/packed/log_mel.h"

namespace wavepool::whisper {

struct PackedEncoderBlock {
    Norm attention_norm;
    ByteMatrix query_key_value;
    ByteMatrix attention_out;
    Norm mlp_norm;
    ByteMatrix up;
    ByteMatrix down;
};

struct PackedDecoderBlock {
    Norm self_norm;
    ByteMatrix self_query_key_value;
    ByteMatrix self_out;
    Norm cross_norm;
    ByteMatrix cross_query;
    ByteMatrix cross_key_value;
    ByteMatrix cross_out;
    Norm mlp_norm;
    ByteMatrix up;
    ByteMatrix down;
};

/// The weights of one checkpoint with all its matrices in bytes. Convolution weights are laid out
/// [out][tap][in]. Immutable after loading.
class PackedWeights {
  public:
    /// Null for checkpoints that are not packed (load_packed_network_weights()). Throws
    /// Error{kModelFileInvalid}, std::bad_alloc.
    [[nodiscard]] static std::shared_ptr<const PackedWeights> load(const Checkpoint& checkpoint,
                                                                   Allocation allocation);

    PackedWeights(const Parameters& sizes, Allocation allocation);

    Parameters sizes;
    LogMel log_mel;
    ByteMatrix conv1;
    ByteMatrix conv2;
    std::span<float> audio_positions;  ///< [frame][width]
    std::vector<PackedEncoderBlock> encoder;
    Norm encoder_norm;

    ByteMatrix embedding;             ///< also the output projection
    std::span<float> text_positions;  ///< [position][width]
    std::vector<PackedDecoderBlock> decoder;
    Norm decoder_norm;

    [[nodiscard]] std::size_t bytes() const noexcept { return arena_.bytes(); }

  private:
    friend class PackedLoader;
    Arena arena_;
};

/// Width of a head in every Whisper model.
inline constexpr std::int64_t kHeadWidth = 64;
inline constexpr std::int64_t kConvolutionTaps = 3;

}  // namespace wavepool::whisper
