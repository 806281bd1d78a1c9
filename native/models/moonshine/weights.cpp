#include "models/moonshine/weights.h"

#include <array>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "framework/error.h"
#include "models/moonshine/front_end.h"

namespace wavepool::moonshine {
namespace {

using Floats = std::vector<float>;

[[noreturn]] void refuse(const std::string& reason) {
    throw Error(ErrorCode::kModelFileInvalid, "not a usable Moonshine model: " + reason);
}

std::int64_t size_of(const GgufFile& file, const std::string& key, std::int64_t most) {
    const std::int64_t value = file.integer("moonshine." + key);
    if (value < 1 || value > most) {
        refuse("moonshine." + key + " is " + std::to_string(value) + ", outside 1 to " +
               std::to_string(most));
    }
    return value;
}

Config read_config(const GgufFile& file) {
    Config config;
    config.width = size_of(file, "embedding_length", 4096);
    config.feed_forward = size_of(file, "feed_forward_length", 16384);
    config.encoder_blocks = size_of(file, "block_count.encoder", 64);
    config.decoder_blocks = size_of(file, "block_count.decoder", 64);
    config.heads = size_of(file, "attention.head_count", 64);
    config.rotary_dimensions = size_of(file, "rope.dimension_count", 4096);
    config.vocabulary = size_of(file, "vocab_size", 1 << 20);
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

Floats concatenate(std::initializer_list<Floats> parts) {
    Floats result;
    for (const Floats& part : parts) result.insert(result.end(), part.begin(), part.end());
    return result;
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

/// Collects all tensors, then places them in one buffer.
class WeightLoader {
  public:
    explicit WeightLoader(const std::filesystem::path& path)
        : file_(path), weights_(new Weights()) {}

    std::shared_ptr<const Weights> load() {
        weights_->config = read_config(file_);
        weights_->name = file_.string("general.name");
        weights_->pieces = file_.strings("tokenizer.ggml.tokens");
        const Config& c = weights_->config;
        if (static_cast<std::int64_t>(weights_->pieces.size()) != c.vocabulary) {
            refuse("its vocabulary has " + std::to_string(weights_->pieces.size()) +
                   " pieces, not " + std::to_string(c.vocabulary));
        }
        // 7 and 2 + 8 + 12 tensors per block are used; the margin costs bytes only.
        const auto tensors = static_cast<std::size_t>(
            16 + 16 * (weights_->config.encoder_blocks + weights_->config.decoder_blocks));
        weights_->context_.reset(ggml_init({tensors * ggml_tensor_overhead(), nullptr, true}));
        if (!weights_->context_) throw Error(ErrorCode::kInsufficientMemory, "loading weights");
        load_front_end();
        for (std::int64_t i = 0; i < c.encoder_blocks; ++i) load_encoder_block(i);
        weights_->encoder_norm = vector("encoder.norm.weight", c.width);
        weights_->embedding =
            matrix(GGML_TYPE_Q8_0, c.width,
                   read("decoder.token_embedding.weight", {c.vocabulary, c.width}));
        for (std::int64_t i = 0; i < c.decoder_blocks; ++i) load_decoder_block(i);
        weights_->decoder_norm = vector("decoder.norm.weight", c.width);
        place();
        return std::move(weights_);
    }

  private:
    void load_front_end() {
        const std::int64_t width = weights_->config.width;
        const std::int64_t wide = 2 * width;
        Weights& w = *weights_;
        w.conv1 = matrix(GGML_TYPE_F16, kConv1Taps,
                         time_major(read("encoder.conv1.weight", {width, 1, kConv1Kernel}), width,
                                    1, kConv1Kernel, kConv1Taps));
        w.group_norm = vector("encoder.group_norm.weight", width);
        w.group_norm_bias = vector("encoder.group_norm.bias", width);
        w.conv2 = matrix(GGML_TYPE_F16, kConv2Kernel * width,
                         time_major(read("encoder.conv2.weight", {wide, width, kConv2Kernel}), wide,
                                    width, kConv2Kernel, kConv2Kernel));
        w.conv2_bias = vector("encoder.conv2.bias", wide);
        w.conv3 = matrix(GGML_TYPE_F16, kConv3Kernel * wide,
                         time_major(read("encoder.conv3.weight", {width, wide, kConv3Kernel}),
                                    width, wide, kConv3Kernel, kConv3Kernel));
        w.conv3_bias = vector("encoder.conv3.bias", width);
    }

    void load_encoder_block(std::int64_t index) {
        const Config& c = weights_->config;
        const std::string name = "encoder.blocks." + std::to_string(index) + ".";
        const std::string attention = name + "attn.";
        EncoderBlock block;
        block.attention_norm = vector(name + "attn_norm.weight", c.width);
        block.query_key_value = matrix(GGML_TYPE_F16, c.width,
                                       concatenate({pad_heads(square(attention + "q.weight"), c),
                                                    pad_heads(square(attention + "k.weight"), c),
                                                    square(attention + "v.weight")}));
        block.attention_out = matrix(GGML_TYPE_F16, c.width, square(attention + "out.weight"));
        block.mlp_norm = vector(name + "mlp_norm.weight", c.width);
        block.up = matrix(GGML_TYPE_F16, c.width,
                          read(name + "mlp.fc1.weight", {c.feed_forward, c.width}));
        block.up_bias = vector(name + "mlp.fc1.bias", c.feed_forward);
        block.down = matrix(GGML_TYPE_F16, c.feed_forward,
                            read(name + "mlp.fc2.weight", {c.width, c.feed_forward}));
        block.down_bias = vector(name + "mlp.fc2.bias", c.width);
        weights_->encoder.push_back(block);
    }

    void load_decoder_block(std::int64_t index) {
        const Config& c = weights_->config;
        const std::string name = "decoder.blocks." + std::to_string(index) + ".";
        const std::string self = name + "self_attn.";
        const std::string cross = name + "cross_attn.";
        DecoderBlock block;
        block.self_norm = vector(name + "self_attn_norm.weight", c.width);
        block.self_query_key_value =
            matrix(GGML_TYPE_Q8_0, c.width,
                   concatenate({square(self + "q.weight"), square(self + "k.weight"),
                                square(self + "v.weight")}));
        block.self_out = matrix(GGML_TYPE_Q8_0, c.width, square(self + "out.weight"));
        block.cross_norm = vector(name + "cross_attn_norm.weight", c.width);
        block.cross_query = matrix(GGML_TYPE_Q8_0, c.width, square(cross + "q.weight"));
        block.cross_key_value =
            matrix(GGML_TYPE_F16, c.width,
                   concatenate({square(cross + "k.weight"), square(cross + "v.weight")}));
        block.cross_out = matrix(GGML_TYPE_Q8_0, c.width, square(cross + "out.weight"));
        block.mlp_norm = vector(name + "mlp_norm.weight", c.width);
        block.up = matrix(GGML_TYPE_Q8_0, c.width,
                          read(name + "mlp.up.weight", {2 * c.feed_forward, c.width}));
        block.up_bias = vector(name + "mlp.up.bias", 2 * c.feed_forward);
        block.down = matrix(GGML_TYPE_Q8_0, c.feed_forward,
                            read(name + "mlp.down.weight", {c.width, c.feed_forward}));
        block.down_bias = vector(name + "mlp.down.bias", c.width);
        weights_->decoder.push_back(block);
    }

    Floats read(const std::string& name, std::initializer_list<std::int64_t> shape) const {
        return file_.f32(name, std::span(shape.begin(), shape.size()));
    }

    Floats square(const std::string& name) const {
        return read(name, {weights_->config.width, weights_->config.width});
    }

    ggml_tensor* matrix(ggml_type type, std::int64_t columns, const Floats& values) {
        const std::int64_t rows = static_cast<std::int64_t>(values.size()) / columns;
        ggml_tensor* tensor = ggml_new_tensor_2d(weights_->context_.get(), type, columns, rows);
        contents_.emplace_back(tensor, encode_values(type, values, columns));
        return tensor;
    }

    ggml_tensor* vector(const std::string& name, std::int64_t length) {
        const Floats values = read(name, {length});
        ggml_tensor* tensor = ggml_new_tensor_1d(weights_->context_.get(), GGML_TYPE_F32, length);
        contents_.emplace_back(tensor, encode_values(GGML_TYPE_F32, values, length));
        return tensor;
    }

    void place() {
        weights_->buffer_.reset(ggml_backend_alloc_ctx_tensors_from_buft(
            weights_->context_.get(), ggml_backend_cpu_buffer_type()));
        if (!weights_->buffer_) throw Error(ErrorCode::kInsufficientMemory, "loading weights");
        ggml_backend_buffer_set_usage(weights_->buffer_.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        for (const auto& [tensor, bytes] : contents_) {
            ggml_backend_tensor_set(tensor, bytes.data(), 0, bytes.size());
        }
    }

    GgufFile file_;
    std::shared_ptr<Weights> weights_;
    std::vector<std::pair<ggml_tensor*, std::vector<std::byte>>> contents_;
};

std::shared_ptr<const Weights> Weights::load(const std::filesystem::path& file) {
    return WeightLoader(file).load();
}

std::size_t Weights::bytes() const noexcept {
    std::size_t total = ggml_backend_buffer_get_size(buffer_.get());
    for (const std::string& piece : pieces) total += sizeof(piece) + piece.capacity();
    return total;
}

}  // namespace wavepool::moonshine
