#include "models/whisper/packed/packed_weights.h"

#include <algorithm>
#include <array>

#include "framework/tensors/ggml_bin_header.h"
#include "kernels/packed/attention.h"

namespace wavepool::whisper {
namespace {

constexpr std::int64_t kWidest = 768;      // small
constexpr std::int32_t kMostFileType = 1;  // f32 is 0, f16 is 1; all others are quantized
static_assert(kHeadWidth <= kMostHeadWidth);

}  // namespace

/// Plans the memory with a planned allocation, reads as well with a real one. Names, shapes and
/// types have been checked by the checkpoint.
class PackedLoader {
  public:
    PackedLoader(const TensorSource& source, PackedWeights& weights)
        : source_(source), weights_(weights), arena_(weights.arena_), width_(weights.sizes.state) {}

    void load() {
        const Parameters& sizes = weights_.sizes;
        weights_.log_mel = LogMel(arena_, mel_filters(), sizes.mel_bins);
        weights_.conv1 = convolution("encoder.conv1", sizes.mel_bins);
        weights_.conv2 = convolution("encoder.conv2", width_);
        weights_.audio_positions = vector("encoder.positional_embedding", {kAudioContext, width_});
        for (std::int64_t i = 0; i < sizes.audio_layers; ++i) {
            load_encoder_block("encoder.blocks." + std::to_string(i) + ".");
        }
        weights_.encoder_norm = norm("encoder.ln_post");
        weights_.embedding = ByteMatrix(arena_, sizes.vocabulary, width_);
        fill_rows(weights_.embedding, 0, "decoder.token_embedding.weight", sizes.vocabulary);
        weights_.text_positions = vector("decoder.positional_embedding", {kTextContext, width_});
        for (std::int64_t i = 0; i < sizes.text_layers; ++i) {
            load_decoder_block("decoder.blocks." + std::to_string(i) + ".");
        }
        weights_.decoder_norm = norm("decoder.ln");
    }

  private:
    void load_encoder_block(const std::string& name) {
        PackedEncoderBlock block;
        block.attention_norm = norm(name + "attn_ln");
        block.query_key_value = stacked(name + "attn.", {"query", "key", "value"});
        block.attention_out = stacked(name + "attn.", {"out"});
        block.mlp_norm = norm(name + "mlp_ln");
        block.up = matrix(name + "mlp.0", 4 * width_, width_);
        block.down = matrix(name + "mlp.2", width_, 4 * width_);
        weights_.encoder.push_back(block);
    }

    void load_decoder_block(const std::string& name) {
        PackedDecoderBlock block;
        block.self_norm = norm(name + "attn_ln");
        block.self_query_key_value = stacked(name + "attn.", {"query", "key", "value"});
        block.self_out = stacked(name + "attn.", {"out"});
        block.cross_norm = norm(name + "cross_attn_ln");
        block.cross_query = stacked(name + "cross_attn.", {"query"});
        block.cross_key_value = stacked(name + "cross_attn.", {"key", "value"});
        block.cross_out = stacked(name + "cross_attn.", {"out"});
        block.mlp_norm = norm(name + "mlp_ln");
        block.up = matrix(name + "mlp.0", 4 * width_, width_);
        block.down = matrix(name + "mlp.2", width_, 4 * width_);
        weights_.decoder.push_back(block);
    }

    [[nodiscard]] bool planned() const { return arena_.allocation() == Allocation::kPlanned; }

    std::vector<float> mel_filters() const {
        if (planned()) return {};
        return source_.f32(kGgmlBinMelFilters,
                           std::array{weights_.sizes.mel_bins, LogMel::kFrequencies});
    }

    void fill_rows(ByteMatrix& to, std::int64_t first, const std::string& name, std::int64_t rows) {
        if (planned()) return;
        const std::vector<float> values = source_.f32(name, std::array{rows, to.columns()});
        const auto columns = static_cast<std::size_t>(to.columns());
        for (std::int64_t row = 0; row < rows; ++row) {
            const auto at = static_cast<std::size_t>(row) * columns;
            to.set_row(first + row, std::span(values).subspan(at, columns));
        }
    }

    ByteMatrix matrix(const std::string& name, std::int64_t rows, std::int64_t columns) {
        ByteMatrix result(arena_, rows, columns);
        fill_rows(result, 0, name + ".weight", rows);
        if (!planned()) result.set_bias(0, source_.f32(name + ".bias", std::array{rows}));
        return result;
    }

    /// Square matrices, one below the other. Keys have no bias.
    ByteMatrix stacked(const std::string& prefix, const std::vector<std::string>& parts) {
        ByteMatrix result(arena_, static_cast<std::int64_t>(parts.size()) * width_, width_);
        std::int64_t first = 0;
        for (const std::string& part : parts) {
            fill_rows(result, first, prefix + part + ".weight", width_);
            if (!planned() && part != "key") {
                result.set_bias(first, source_.f32(prefix + part + ".bias", std::array{width_}));
            }
            first += width_;
        }
        return result;
    }

    /// [out][in][tap] as [out][tap][in].
    ByteMatrix convolution(const std::string& name, std::int64_t in) {
        constexpr std::int64_t kTaps = kConvolutionTaps;
        ByteMatrix result(arena_, width_, kTaps * in);
        if (planned()) return result;
        const auto values = source_.f32(name + ".weight", std::array{width_, in, kTaps});
        std::vector<float> row(static_cast<std::size_t>(kTaps * in));
        for (std::int64_t o = 0; o < width_; ++o) {
            for (std::int64_t i = 0; i < in; ++i) {
                for (std::int64_t t = 0; t < kTaps; ++t) {
                    row[static_cast<std::size_t>(t * in + i)] =
                        values[static_cast<std::size_t>((o * in + i) * kTaps + t)];
                }
            }
            result.set_row(o, row);
        }
        result.set_bias(0, source_.f32(name + ".bias", std::array{width_, std::int64_t{1}}));
        return result;
    }

    std::span<float> vector(const std::string& name, const std::vector<std::int64_t>& shape) {
        std::int64_t count = 1;
        for (const std::int64_t extent : shape) count *= extent;
        const std::span<float> result = arena_.take<float>(count);
        if (!planned()) std::ranges::copy(source_.f32(name, shape), result.begin());
        return result;
    }

    Norm norm(const std::string& name) {
        const std::span<float> weight = vector(name + ".weight", {width_});
        return {.weight = weight, .bias = vector(name + ".bias", {width_})};
    }

    const TensorSource& source_;
    PackedWeights& weights_;
    Arena& arena_;
    std::int64_t width_;
};

PackedWeights::PackedWeights(const Parameters& from, Allocation allocation)
    : sizes(from), arena_(allocation) {}

std::shared_ptr<const PackedWeights> PackedWeights::load(const Checkpoint& checkpoint,
                                                         Allocation allocation) {
    const Parameters& sizes = checkpoint.parameters();
    if (!has_vectors() || sizes.without_times() || sizes.state > kWidest ||
        checkpoint.file_type() > kMostFileType) {
        return nullptr;
    }
    auto weights = std::make_shared<PackedWeights>(sizes, allocation);
    PackedLoader(checkpoint.source(), *weights).load();
    return weights;
}

}  // namespace wavepool::whisper
