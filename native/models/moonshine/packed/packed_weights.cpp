#include "models/moonshine/packed/packed_weights.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/float8.h"
#include "kernels/packed/attention.h"
#include "models/moonshine/front_end.h"

namespace wavepool::moonshine {
namespace {

/// What the kernels read at once of a column.
constexpr std::int64_t kColumnBlock = 16;

bool sizes_fit(const Config& config) {
    return has_vectors() && config.head_width() <= kMostHeadWidth &&
           config.rotary_dimensions % kLanes == 0 && config.width % kColumnBlock == 0 &&
           config.feed_forward % kColumnBlock == 0;
}

}  // namespace

/// Checks every name and shape and plans the memory with a planned allocation, reads as well with a
/// real one.
class PackedLoader {
  public:
    PackedLoader(const TensorSource& source, PackedWeights& weights)
        : source_(source), weights_(weights), arena_(weights.arena_) {}

    /// Whether all matrices are integers.
    bool load() {
        const Config& c = weights_.config();
        load_front_end();
        for (std::int64_t i = 0; i < c.encoder_blocks; ++i) load_encoder_block(i);
        weights_.encoder_norm = vector("encoder.norm.weight", c.width);
        weights_.embedding = matrix({"decoder.token_embedding.weight"}, c.vocabulary, c.width);
        for (std::int64_t i = 0; i < c.decoder_blocks; ++i) load_decoder_block(i);
        weights_.decoder_norm = vector("decoder.norm.weight", c.width);
        return integers_;
    }

  private:
    void load_front_end() {
        const std::int64_t width = weights_.config().width;
        PackedWeights& w = weights_;
        w.conv1 = convolution("encoder.conv1.weight", width, 1, kConv1Kernel, kConv1Taps);
        w.group_norm = vector("encoder.group_norm.weight", width);
        w.group_norm_bias = vector("encoder.group_norm.bias", width);
        w.conv2 = convolution("encoder.conv2.weight", 2 * width, width, kConv2Kernel, kConv2Kernel);
        w.conv2_bias = vector("encoder.conv2.bias", 2 * width);
        w.conv3 = convolution("encoder.conv3.weight", width, 2 * width, kConv3Kernel, kConv3Kernel);
        w.conv3_bias = vector("encoder.conv3.bias", width);
    }

    void load_encoder_block(std::int64_t index) {
        const Config& c = weights_.config();
        const std::string name = "encoder.blocks." + std::to_string(index) + ".";
        const std::string attention = name + "attn.";
        PackedEncoderBlock block;
        block.attention_norm = vector(name + "attn_norm.weight", c.width);
        block.query_key_value = square(attention, {"q", "k", "v"});
        block.attention_out = square(attention, {"out"});
        block.mlp_norm = vector(name + "mlp_norm.weight", c.width);
        block.up = matrix({name + "mlp.fc1.weight"}, c.feed_forward, c.width);
        block.up_bias = vector(name + "mlp.fc1.bias", c.feed_forward);
        block.down = matrix({name + "mlp.fc2.weight"}, c.width, c.feed_forward);
        block.down_bias = vector(name + "mlp.fc2.bias", c.width);
        weights_.encoder.push_back(block);
    }

    void load_decoder_block(std::int64_t index) {
        const Config& c = weights_.config();
        const std::string name = "decoder.blocks." + std::to_string(index) + ".";
        PackedDecoderBlock block;
        block.self_norm = vector(name + "self_attn_norm.weight", c.width);
        block.self_query_key_value = square(name + "self_attn.", {"q", "k", "v"});
        block.self_out = square(name + "self_attn.", {"out"});
        block.cross_norm = vector(name + "cross_attn_norm.weight", c.width);
        block.cross_query = square(name + "cross_attn.", {"q"});
        block.cross_key_value = square(name + "cross_attn.", {"k", "v"});
        block.cross_out = square(name + "cross_attn.", {"out"});
        block.mlp_norm = vector(name + "mlp_norm.weight", c.width);
        block.up = matrix({name + "mlp.up.weight"}, 2 * c.feed_forward, c.width);
        block.up_bias = vector(name + "mlp.up.bias", 2 * c.feed_forward);
        block.down = matrix({name + "mlp.down.weight"}, c.width, c.feed_forward);
        block.down_bias = vector(name + "mlp.down.bias", c.width);
        weights_.decoder.push_back(block);
    }

    [[nodiscard]] bool planned() const { return arena_.allocation() == Allocation::kPlanned; }

    void expect(const std::string& name, std::vector<std::int64_t> shape) {
        integers_ = source_.expect(name, shape).type == TensorType::kI8 && integers_;
    }

    PackedMatrix square(const std::string& prefix, const std::vector<std::string>& parts) {
        std::vector<std::string> names;
        for (const std::string& part : parts) names.push_back(prefix + part + ".weight");
        return matrix(names, weights_.config().width, weights_.config().width);
    }

    /// Matrices of the same shape, one below the other.
    PackedMatrix matrix(const std::vector<std::string>& names, std::int64_t rows,
                        std::int64_t columns) {
        const std::vector<std::int64_t> shape{rows, columns};
        PackedMatrix result(arena_, static_cast<std::int64_t>(names.size()) * rows, columns);
        std::int64_t first = 0;
        for (const std::string& name : names) {
            expect(name, shape);
            if (!planned()) {
                const auto stored = source_.i8(name, shape);
                result.set_rows(first, stored.values, stored.scale, stored.offset);
            }
            first += rows;
        }
        return result;
    }

    /// [out][in][tap] as [out][tap][in]. Taps that pad the kernel are 0 and meet zeros only.
    PackedMatrix convolution(const std::string& name, std::int64_t out, std::int64_t in,
                             std::int64_t taps, std::int64_t padded_taps) {
        const std::vector<std::int64_t> shape{out, in, taps};
        expect(name, shape);
        PackedMatrix result(arena_, out, padded_taps * in);
        if (planned()) return result;
        const auto stored = source_.i8(name, shape);
        std::vector<std::int8_t> row(static_cast<std::size_t>(padded_taps * in));
        for (std::int64_t o = 0; o < out; ++o) {
            for (std::int64_t i = 0; i < in; ++i) {
                for (std::int64_t t = 0; t < taps; ++t) {
                    row[static_cast<std::size_t>(t * in + i)] =
                        stored.values[static_cast<std::size_t>((o * in + i) * taps + t)];
                }
            }
            result.set_rows(o, row, stored.scale, stored.offset);
        }
        return result;
    }

    std::span<float> vector(const std::string& name, std::int64_t length) {
        const std::vector<std::int64_t> shape{length};
        source_.expect(name, shape);
        const std::span<float> result = arena_.take<float>(length);
        if (!planned()) std::ranges::copy(source_.f32(name, shape), result.begin());
        return result;
    }

    const TensorSource& source_;
    PackedWeights& weights_;
    Arena& arena_;
    bool integers_ = true;
};

PackedWeights::PackedWeights(Description from, Allocation allocation)
    : description(std::move(from)), arena_(allocation) {}

std::shared_ptr<const PackedWeights> PackedWeights::load(const TensorSource& source,
                                                         Allocation allocation) {
    Description description = read_description(source);
    if (!sizes_fit(description.config)) return nullptr;
    auto weights = std::make_shared<PackedWeights>(description, Allocation::kPlanned);
    if (!PackedLoader(source, *weights).load()) return nullptr;
    if (allocation == Allocation::kPlanned) return weights;
    weights = std::make_shared<PackedWeights>(std::move(description), Allocation::kReal);
    (void)PackedLoader(source, *weights).load();
    return weights;
}

std::size_t PackedWeights::bytes() const noexcept {
    std::size_t total = arena_.bytes();
    for (const std::string& piece : description.pieces) total += sizeof(piece) + piece.capacity();
    return total;
}

}  // namespace wavepool::moonshine
