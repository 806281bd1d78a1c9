#include "models/moonshine/weights.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "framework/error.h"
#include "models/moonshine/front_end.h"
#include "models/moonshine/graph_memory.h"

namespace wavepool::moonshine {
namespace {

using Floats = std::vector<float>;

[[noreturn]] void refuse(const std::string& reason) {
    throw Error(ErrorCode::kModelFileInvalid, "not a usable Moonshine model: " + reason);
}

std::int64_t size_of(const TensorSource& source, const std::string& key, std::int64_t most) {
    const std::int64_t value = source.integer("moonshine." + key);
    if (value < 1 || value > most) {
        refuse("moonshine." + key + " is " + std::to_string(value) + ", outside 1 to " +
               std::to_string(most));
    }
    return value;
}

Config read_config(const TensorSource& source) {
    Config config;
    config.width = size_of(source, "embedding_length", 4096);
    config.feed_forward = size_of(source, "feed_forward_length", 16384);
    config.encoder_blocks = size_of(source, "block_count.encoder", 64);
    config.decoder_blocks = size_of(source, "block_count.decoder", 64);
    config.heads = size_of(source, "attention.head_count", 64);
    config.rotary_dimensions = size_of(source, "rope.dimension_count", 4096);
    config.vocabulary = size_of(source, "vocab_size", 1 << 20);
    // q8_0 blocks hold 32 values of a row.
    if (config.width % 32 != 0 || config.feed_forward % 32 != 0) {
        refuse("widths are not multiples of 32");
    }
    if (config.width % config.heads != 0 || config.head_width() % 4 != 0) {
        refuse("heads do not divide the width into multiples of 4");
    }
    if (config.rotary_dimensions % 2 != 0 || config.rotary_dimensions > config.head_width()) {
        refuse("moonshine.rope.dimension_count does not fit a head");
    }
    return config;
}

/// [out][in][tap] to [out][tap][in], each row padded with zeros to `padded_taps` taps.
Floats time_major(const Floats& weight, std::int64_t out, std::int64_t in, std::int64_t taps,
                  std::int64_t padded_taps) {
    Floats result(static_cast<std::size_t>(out * padded_taps * in), 0.0F);
    for (std::int64_t o = 0; o < out; ++o) {
        for (std::int64_t i = 0; i < in; ++i) {
            for (std::int64_t t = 0; t < taps; ++t) {
                result[static_cast<std::size_t>((o * padded_taps + t) * in + i)] =
                    weight[static_cast<std::size_t>((o * in + i) * taps + t)];
            }
        }
    }
    return result;
}

/// Puts zero rows after each head of a projection.
Floats pad_heads(const Floats& weight, const Config& config) {
    const auto head = static_cast<std::size_t>(config.head_width() * config.width);
    const auto padded = static_cast<std::size_t>(config.padded_head_width() * config.width);
    const auto heads = static_cast<std::size_t>(config.heads);
    Floats result(heads * padded, 0.0F);
    for (std::size_t h = 0; h < heads; ++h) {
        std::copy_n(weight.data() + h * head, head, result.data() + h * padded);
    }
    return result;
}

/// Makes the values of one tensor.
using Values = std::function<Floats()>;

/// The values of all parts, one after the other.
Values joined(std::vector<Values> parts) {
    return [parts = std::move(parts)] {
        Floats result;
        for (const Values& part : parts) {
            const Floats values = part();
            result.insert(result.end(), values.begin(), values.end());
        }
        return result;
    };
}

/// The values in the representation of `type`.
std::vector<std::byte> encode_values(ggml_type type, const Floats& values, std::int64_t columns) {
    const std::int64_t rows = static_cast<std::int64_t>(values.size()) / columns;
    std::vector<std::byte> bytes(ggml_row_size(type, columns) * static_cast<std::size_t>(rows));
    if (type == GGML_TYPE_F32) {
        std::memcpy(bytes.data(), values.data(), bytes.size());
    } else {
        ggml_quantize_chunk(type, values.data(), bytes.data(), 0, rows, columns, nullptr);
    }
    return bytes;
}

}  // namespace

Description read_description(const TensorSource& source) {
    Description description{.config = read_config(source),
                            .name = source.string("general.name"),
                            .pieces = source.strings("tokenizer.ggml.tokens")};
    const std::size_t pieces = description.pieces.size();
    if (static_cast<std::int64_t>(pieces) != description.config.vocabulary) {
        refuse("its vocabulary has " + std::to_string(pieces) + " pieces, not " +
               std::to_string(description.config.vocabulary));
    }
    return description;
}

/// Lays out all tensors, which checks every name and shape, before it reads the values of any; then
/// reads them one by one, so that no second copy of the weights ever exists.
class WeightLoader {
  public:
    explicit WeightLoader(const TensorSource& source) : source_(source), weights_(new Weights()) {}

    std::shared_ptr<const Weights> load(Allocation allocation) {
        lay_out();
        weights_->buffer_bytes_ = place_tensors(weights_->context_.get(), allocation,
                                                weights_->buffer_, "loading weights");
        if (allocation == Allocation::kReal) fill();
        return std::move(weights_);
    }

  private:
    struct Content {
        ggml_tensor* tensor;
        Values values;
    };

    void lay_out() {
        Description description = read_description(source_);
        weights_->config = description.config;
        weights_->name = std::move(description.name);
        weights_->pieces = std::move(description.pieces);
        const Config& c = weights_->config;
        // 7 and 2 + 8 + 12 tensors per block are used; the margin costs bytes only.
        const auto tensors =
            static_cast<std::size_t>(16 + 16 * (c.encoder_blocks + c.decoder_blocks));
        weights_->context_.reset(ggml_init({tensors * ggml_tensor_overhead(), nullptr, true}));
        if (!weights_->context_) throw Error(ErrorCode::kInsufficientMemory, "loading weights");
        add_front_end();
        for (std::int64_t i = 0; i < c.encoder_blocks; ++i) add_encoder_block(i);
        weights_->encoder_norm = vector("encoder.norm.weight", c.width);
        weights_->embedding =
            matrix(GGML_TYPE_Q8_0, c.width, c.vocabulary,
                   stored("decoder.token_embedding.weight", {c.vocabulary, c.width}));
        for (std::int64_t i = 0; i < c.decoder_blocks; ++i) add_decoder_block(i);
        weights_->decoder_norm = vector("decoder.norm.weight", c.width);
    }

    void fill() {
        ggml_backend_buffer_set_usage(weights_->buffer_.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        for (const auto& [tensor, values] : contents_) {
            const auto bytes = encode_values(tensor->type, values(), tensor->ne[0]);
            ggml_backend_tensor_set(tensor, bytes.data(), 0, bytes.size());
        }
    }

    void add_front_end() {
        const std::int64_t width = weights_->config.width;
        const std::int64_t wide = 2 * width;
        Weights& w = *weights_;
        w.conv1 = convolution("encoder.conv1.weight", width, 1, kConv1Kernel, kConv1Taps);
        w.group_norm = vector("encoder.group_norm.weight", width);
        w.group_norm_bias = vector("encoder.group_norm.bias", width);
        w.conv2 = convolution("encoder.conv2.weight", wide, width, kConv2Kernel, kConv2Kernel);
        w.conv2_bias = vector("encoder.conv2.bias", wide);
        w.conv3 = convolution("encoder.conv3.weight", width, wide, kConv3Kernel, kConv3Kernel);
        w.conv3_bias = vector("encoder.conv3.bias", width);
    }

    void add_encoder_block(std::int64_t index) {
        const Config& c = weights_->config;
        const std::string name = "encoder.blocks." + std::to_string(index) + ".";
        const std::string attention = name + "attn.";
        EncoderBlock block;
        block.attention_norm = vector(name + "attn_norm.weight", c.width);
        block.query_key_value =
            matrix(GGML_TYPE_F16, c.width, 2 * c.padded_head_width() * c.heads + c.width,
                   joined({padded_heads(attention + "q.weight"),
                           padded_heads(attention + "k.weight"), square(attention + "v.weight")}));
        block.attention_out =
            matrix(GGML_TYPE_F16, c.width, c.width, square(attention + "out.weight"));
        block.mlp_norm = vector(name + "mlp_norm.weight", c.width);
        block.up = matrix(GGML_TYPE_F16, c.width, c.feed_forward,
                          stored(name + "mlp.fc1.weight", {c.feed_forward, c.width}));
        block.up_bias = vector(name + "mlp.fc1.bias", c.feed_forward);
        block.down = matrix(GGML_TYPE_F16, c.feed_forward, c.width,
                            stored(name + "mlp.fc2.weight", {c.width, c.feed_forward}));
        block.down_bias = vector(name + "mlp.fc2.bias", c.width);
        weights_->encoder.push_back(block);
    }

    void add_decoder_block(std::int64_t index) {
        const Config& c = weights_->config;
        const std::string name = "decoder.blocks." + std::to_string(index) + ".";
        const std::string self = name + "self_attn.";
        const std::string cross = name + "cross_attn.";
        const auto projection = [&](ggml_type type, std::int64_t parts, Values values) {
            return matrix(type, c.width, parts * c.width, std::move(values));
        };
        DecoderBlock block;
        block.self_norm = vector(name + "self_attn_norm.weight", c.width);
        block.self_query_key_value =
            projection(GGML_TYPE_Q8_0, 3,
                       joined({square(self + "q.weight"), square(self + "k.weight"),
                               square(self + "v.weight")}));
        block.self_out = projection(GGML_TYPE_Q8_0, 1, square(self + "out.weight"));
        block.cross_norm = vector(name + "cross_attn_norm.weight", c.width);
        block.cross_query = projection(GGML_TYPE_Q8_0, 1, square(cross + "q.weight"));
        block.cross_key_value = projection(
            GGML_TYPE_F16, 2, joined({square(cross + "k.weight"), square(cross + "v.weight")}));
        block.cross_out = projection(GGML_TYPE_Q8_0, 1, square(cross + "out.weight"));
        block.mlp_norm = vector(name + "mlp_norm.weight", c.width);
        block.up = matrix(GGML_TYPE_Q8_0, c.width, 2 * c.feed_forward,
                          stored(name + "mlp.up.weight", {2 * c.feed_forward, c.width}));
        block.up_bias = vector(name + "mlp.up.bias", 2 * c.feed_forward);
        block.down = matrix(GGML_TYPE_Q8_0, c.feed_forward, c.width,
                            stored(name + "mlp.down.weight", {c.width, c.feed_forward}));
        block.down_bias = vector(name + "mlp.down.bias", c.width);
        weights_->decoder.push_back(block);
    }

    /// The values of a tensor of the source, which must have this shape.
    Values stored(const std::string& name, std::vector<std::int64_t> shape) const {
        source_.expect(name, shape);
        return [this, name, shape = std::move(shape)] { return source_.f32(name, shape); };
    }

    Values square(const std::string& name) const {
        return stored(name, {weights_->config.width, weights_->config.width});
    }

    Values padded_heads(const std::string& name) const {
        return [this, values = square(name)] { return pad_heads(values(), weights_->config); };
    }

    ggml_tensor* matrix(ggml_type type, std::int64_t columns, std::int64_t rows, Values values) {
        ggml_tensor* tensor = ggml_new_tensor_2d(weights_->context_.get(), type, columns, rows);
        contents_.push_back({tensor, std::move(values)});
        return tensor;
    }

    ggml_tensor* convolution(const std::string& name, std::int64_t out, std::int64_t in,
                             std::int64_t taps, std::int64_t padded_taps) {
        return matrix(GGML_TYPE_F16, padded_taps * in, out,
                      [=, values = stored(name, {out, in, taps})] {
                          return time_major(values(), out, in, taps, padded_taps);
                      });
    }

    ggml_tensor* vector(const std::string& name, std::int64_t length) {
        ggml_tensor* tensor = ggml_new_tensor_1d(weights_->context_.get(), GGML_TYPE_F32, length);
        contents_.push_back({tensor, stored(name, {length})});
        return tensor;
    }

    const TensorSource& source_;
    std::shared_ptr<Weights> weights_;
    std::vector<Content> contents_;
};

std::shared_ptr<const Weights> Weights::load(const TensorSource& source) {
    return WeightLoader(source).load(Allocation::kReal);
}

std::shared_ptr<const Weights> Weights::plan(const TensorSource& source) {
    return WeightLoader(source).load(Allocation::kPlanned);
}

std::size_t Weights::bytes() const noexcept {
    std::size_t total = buffer_bytes_;
    for (const std::string& piece : pieces) total += sizeof(piece) + piece.capacity();
    return total;
}

}  // namespace wavepool::moonshine
