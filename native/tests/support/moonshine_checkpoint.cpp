#include "tests/support/moonshine_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "tests/support/gguf_builder.h"

namespace wavepool::testing {

MoonshineCheckpoint::MoonshineCheckpoint() {
    sizes = {{"embedding_length", kWidth},     {"feed_forward_length", kFeedForward},
             {"block_count.encoder", kBlocks}, {"block_count.decoder", kBlocks},
             {"attention.head_count", kHeads}, {"rope.dimension_count", 8},
             {"vocab_size", kVocabulary}};
    for (std::int64_t id = 0; id < kVocabulary; ++id) pieces.push_back(std::to_string(id) + "w");

    add("encoder.conv1.weight", {kWidth, 1, 127}, 0.3F);
    add_norm("encoder.group_norm.weight", kWidth);
    add("encoder.group_norm.bias", {kWidth}, 0.1F);
    add("encoder.conv2.weight", {2 * kWidth, kWidth, 7}, 0.1F);
    add("encoder.conv2.bias", {2 * kWidth}, 0.1F);
    add("encoder.conv3.weight", {kWidth, 2 * kWidth, 3}, 0.1F);
    add("encoder.conv3.bias", {kWidth}, 0.1F);
    add_norm("encoder.norm.weight", kWidth);
    add("decoder.token_embedding.weight", {kVocabulary, kWidth}, 1.0F);
    add_norm("decoder.norm.weight", kWidth);
    for (std::int64_t index = 0; index < kBlocks; ++index) {
        const std::string number = std::to_string(index);
        const std::string encoder = "encoder.blocks." + number + ".";
        const std::string decoder = "decoder.blocks." + number + ".";
        for (const std::string& attention :
             {encoder + "attn.", decoder + "self_attn.", decoder + "cross_attn."}) {
            for (const char* part : {"q", "k", "v", "out"}) {
                add(attention + part + ".weight", {kWidth, kWidth}, 0.4F);
            }
        }
        for (const std::string& norm :
             {encoder + "attn_norm.weight", encoder + "mlp_norm.weight",
              decoder + "self_attn_norm.weight", decoder + "cross_attn_norm.weight",
              decoder + "mlp_norm.weight"}) {
            add_norm(norm, kWidth);
        }
        add(encoder + "mlp.fc1.weight", {kFeedForward, kWidth}, 0.2F);
        add(encoder + "mlp.fc1.bias", {kFeedForward}, 0.2F);
        add(encoder + "mlp.fc2.weight", {kWidth, kFeedForward}, 0.2F);
        add(encoder + "mlp.fc2.bias", {kWidth}, 0.2F);
        add(decoder + "mlp.up.weight", {2 * kFeedForward, kWidth}, 0.2F);
        add(decoder + "mlp.up.bias", {2 * kFeedForward}, 0.2F);
        add(decoder + "mlp.down.weight", {kWidth, kFeedForward}, 0.2F);
        add(decoder + "mlp.down.bias", {kWidth}, 0.2F);
    }
    // A logit of 0 is never the largest of hundreds.
    const auto end = tensors.at("decoder.token_embedding.weight").values.begin() + 2 * kWidth;
    std::fill(end, end + kWidth, 0.0F);
}

namespace {

constexpr std::uint32_t kGgufI8 = 24;

/// Writes values as 200 steps around an offset, so that every part of the format is used.
void write_integers(GgufBuilder& builder, const std::string& name,
                    const MoonshineCheckpoint::Tensor& tensor) {
    const auto [least, most] = std::ranges::minmax(tensor.values);
    const float scale = std::max(most - least, 1e-6F) / 200;
    const float offset = least + 110 * scale;
    std::string values;
    for (const float value : tensor.values) {
        values += static_cast<char>(std::lround((value - offset) / scale));
    }
    builder.tensor(name, tensor.shape, kGgufI8, values);
    builder.f32(name + ".scale", {1}, {scale});
    builder.f32(name + ".offset", {1}, {offset});
}

}  // namespace

std::string MoonshineCheckpoint::bytes() const {
    GgufBuilder builder;
    builder.string("general.architecture", "moonshine").string("general.name", "synthetic");
    for (const auto& [key, value] : sizes) builder.uint32("moonshine." + key, value);
    builder.strings("tokenizer.ggml.tokens", pieces);
    for (const auto& [name, tensor] : tensors) {
        if (integers && tensor.shape.size() > 1) {
            write_integers(builder, name, tensor);
        } else {
            builder.f32(name, tensor.shape, tensor.values);
        }
    }
    return builder.bytes();
}

void MoonshineCheckpoint::add(const std::string& name, std::vector<std::int64_t> shape,
                              float scale) {
    const auto count =
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    std::vector<float> values = noise(static_cast<std::size_t>(count), seed_++);
    for (float& value : values) value *= scale;
    tensors[name] = {std::move(shape), std::move(values)};
}

void MoonshineCheckpoint::add_norm(const std::string& name, std::int64_t width) {
    add(name, {width}, 0.5F);
    for (float& value : tensors.at(name).values) value += 1.0F;
}

}  // namespace wavepool::testing
