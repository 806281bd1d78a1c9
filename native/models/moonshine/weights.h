#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/compute/backend.h"
#include "framework/tensors/tensor_source.h"

namespace wavepool::moonshine {

/// Sizes of one checkpoint, checked to be usable before any tensor is read.
struct Config {
    std::int64_t width = 0;         ///< width of the residual stream
    std::int64_t feed_forward = 0;  ///< width of the hidden layer of each MLP
    std::int64_t encoder_blocks = 0;
    std::int64_t decoder_blocks = 0;
    std::int64_t heads = 0;
    std::int64_t rotary_dimensions = 0;  ///< first dimensions of a head that are rotated
    std::int64_t vocabulary = 0;

    [[nodiscard]] std::int64_t head_width() const noexcept { return width / heads; }
    /// Width of a query and key head in the encoder: padded with zeros to what the matrix kernels
    /// take.
    [[nodiscard]] std::int64_t padded_head_width() const noexcept {
        return (head_width() + 7) / 8 * 8;
    }
};

/// The metadata of a checkpoint.
struct Description {
    Config config;
    std::string name;
    std::vector<std::string> pieces;  ///< the vocabulary, by token id
};

/// Throws Error{kModelFileInvalid}.
[[nodiscard]] Description read_description(const TensorSource& source);

struct EncoderBlock {
    ggml_tensor* attention_norm = nullptr;
    ggml_tensor* query_key_value = nullptr;  ///< query and key heads padded
    ggml_tensor* attention_out = nullptr;
    ggml_tensor* mlp_norm = nullptr;
    ggml_tensor* up = nullptr;
    ggml_tensor* up_bias = nullptr;
    ggml_tensor* down = nullptr;
    ggml_tensor* down_bias = nullptr;
};

struct DecoderBlock {
    ggml_tensor* self_norm = nullptr;
    ggml_tensor* self_query_key_value = nullptr;
    ggml_tensor* self_out = nullptr;
    ggml_tensor* cross_norm = nullptr;
    ggml_tensor* cross_query = nullptr;
    ggml_tensor* cross_key_value = nullptr;  ///< applied to the encoder's output, once per clip
    ggml_tensor* cross_out = nullptr;
    ggml_tensor* mlp_norm = nullptr;
    ggml_tensor* up = nullptr;  ///< value rows, then gate rows
    ggml_tensor* up_bias = nullptr;
    ggml_tensor* down = nullptr;
    ggml_tensor* down_bias = nullptr;
};

/// The weights of one checkpoint as the graphs use them: what is applied to many frames at once
/// (encoder, cross keys and values) in f16, what is applied to one token per clip in q8_0, norms
/// and biases in f32. Convolution weights are laid out [out][tap][in], so that a convolution over
/// frames is one matrix product. Immutable after loading.
class Weights {
  public:
    /// Throws Error{kModelFileInvalid | kInsufficientMemory}.
    [[nodiscard]] static std::shared_ptr<const Weights> load(const TensorSource& source);

    /// Like load(), but from metadata alone: the tensors have a shape and no memory. The result
    /// tells what bytes() would be and can plan sessions, nothing else.
    [[nodiscard]] static std::shared_ptr<const Weights> plan(const TensorSource& source);

    Config config;
    std::string name;
    std::vector<std::string> pieces;  ///< the vocabulary, by token id

    ggml_tensor* conv1 = nullptr;  ///< taps padded with a zero to kConv1Taps
    ggml_tensor* group_norm = nullptr;
    ggml_tensor* group_norm_bias = nullptr;
    ggml_tensor* conv2 = nullptr;
    ggml_tensor* conv2_bias = nullptr;
    ggml_tensor* conv3 = nullptr;
    ggml_tensor* conv3_bias = nullptr;
    std::vector<EncoderBlock> encoder;
    ggml_tensor* encoder_norm = nullptr;

    ggml_tensor* embedding = nullptr;  ///< also the output projection
    std::vector<DecoderBlock> decoder;
    ggml_tensor* decoder_norm = nullptr;

    [[nodiscard]] std::size_t bytes() const noexcept;

  private:
    friend class WeightLoader;
    Weights() = default;

    ContextPtr context_;
    BufferPtr buffer_;
    std::size_t buffer_bytes_ = 0;
};

}  // namespace wavepool::moonshine
