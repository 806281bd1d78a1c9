#include "tests/support/whisper_checkpoint.h"

#include <ggml.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace wavepool::testing {
namespace {

template <typename T>
void append(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// 8 times a vector of length 1 and mean 0.
float direction(std::size_t index) { return index % 2 == 0 ? 1.0F : -1.0F; }

/// The sign of a value of the last norm, so that a token is not followed by itself.
float sign(std::size_t index) { return index / 2 % 2 == 0 ? 1.0F : -1.0F; }

std::size_t elements(const std::vector<std::int32_t>& shape) {
    std::size_t product = 1;
    for (const std::int32_t extent : shape) product *= static_cast<std::size_t>(extent);
    return product;
}

}  // namespace

WhisperCheckpoint::WhisperCheckpoint(bool multilingual)
    : parameters{multilingual ? 51865 : 51864, 1500, kWidth, 1, 1, 448, kWidth, 1, 1, 80, 1} {
    const std::size_t end_token = multilingual ? 50257 : 50256;
    for (std::size_t id = 0; id < end_token; ++id) tokens.push_back(" w" + std::to_string(id));
    tokens[220] = " ";
    for (std::int32_t bin = 0; bin < mel_bins; ++bin) {
        for (std::int32_t i = 0; i < mel_frequencies; ++i) {
            append(mel_filters, std::abs(i - 2 * bin) < 3 ? 0.1F : 0.0F);
        }
    }
    add("encoder.positional_embedding", {1500, kWidth}, random(1500 * kWidth, 0.5F));
    add("encoder.conv1.weight", {kWidth, 80, 3}, random(kWidth * 240, 0.1F), true);
    add("encoder.conv1.bias", {kWidth, 1}, random(kWidth, 0.1F));
    add("encoder.conv2.weight", {kWidth, kWidth, 3}, random(kWidth * kWidth * 3, 0.2F), true);
    add("encoder.conv2.bias", {kWidth, 1}, random(kWidth, 0.1F));
    add_norm("encoder.ln_post");
    add_attention("encoder.blocks.0.attn", 0.3F);
    add_norm("encoder.blocks.0.mlp_ln");
    add_linear("encoder.blocks.0.mlp.0", 4 * kWidth, kWidth, 0.3F);
    add_linear("encoder.blocks.0.mlp.2", kWidth, 4 * kWidth, 0.1F);
    add_decoder();
}

/// Each token leads to another by chance, the sound changes which; the later the position, the
/// likelier is the end.
void WhisperCheckpoint::add_decoder() {
    std::vector<float> positions(448 * kWidth);
    for (std::size_t i = 0; i < positions.size(); ++i) {
        positions[i] = direction(i) * static_cast<float>(i / kWidth);
    }
    add("decoder.positional_embedding", {448, kWidth}, std::move(positions));
    const auto vocabulary = static_cast<std::size_t>(parameters[0]);
    std::vector<float> embedding = random(vocabulary * kWidth, 8.0F);
    // Nothing but text and the end: a logit of 0 is never the largest of thousands.
    const std::size_t end = tokens.size();
    std::fill(embedding.begin() + static_cast<std::ptrdiff_t>((end + 1) * kWidth), embedding.end(),
              0.0F);
    for (std::size_t i = 0; i < kWidth; ++i) {
        embedding[end * kWidth + i] = 8 * direction(i) * sign(i);
    }
    add("decoder.token_embedding.weight", {parameters[0], kWidth}, std::move(embedding), true);
    std::vector<float> signs(kWidth);
    for (std::size_t i = 0; i < kWidth; ++i) signs[i] = sign(i);
    add("decoder.ln.weight", {kWidth}, std::move(signs));
    add("decoder.ln.bias", {kWidth}, std::vector<float>(kWidth, 0.0F));
    add_attention("decoder.blocks.0.attn", 0.1F);
    add_attention("decoder.blocks.0.cross_attn", 4.0F);
    add_norm("decoder.blocks.0.mlp_ln");
    add_linear("decoder.blocks.0.mlp.0", 4 * kWidth, kWidth, 0.1F);
    add_linear("decoder.blocks.0.mlp.2", kWidth, 4 * kWidth, 0.1F);
}

std::vector<float> WhisperCheckpoint::random(std::size_t count, float scale) {
    std::vector<float> values(count);
    for (float& value : values) {
        seed_ = seed_ * 1664525U + 1013904223U;
        value = scale * (static_cast<float>(seed_ >> 8) / (1U << 23) - 1);
    }
    return values;
}

void WhisperCheckpoint::add(const std::string& name, std::vector<std::int32_t> shape,
                            std::vector<float> values, bool half) {
    std::string numbers;
    numbers.reserve(values.size() * 4);
    for (const float value : values) {
        if (half) {
            append(numbers, ggml_fp32_to_fp16(value));
        } else {
            append(numbers, value);
        }
    }
    tensors.push_back({name, std::move(shape), half ? 1 : 0, std::move(numbers)});
}

void WhisperCheckpoint::add_norm(const std::string& name) {
    add(name + ".weight", {kWidth}, std::vector<float>(kWidth, 1.0F));
    add(name + ".bias", {kWidth}, std::vector<float>(kWidth, 0.0F));
}

void WhisperCheckpoint::add_linear(const std::string& name, std::int32_t out, std::int32_t in,
                                   float scale, bool bias) {
    add(name + ".weight", {out, in}, random(elements({out, in}), scale), true);
    if (bias) add(name + ".bias", {out}, random(elements({out}), 0.1F));
}

void WhisperCheckpoint::add_attention(const std::string& name, float out_scale) {
    add_norm(name + "_ln");
    add_linear(name + ".query", kWidth, kWidth, 0.3F);
    add_linear(name + ".key", kWidth, kWidth, 0.3F, false);
    add_linear(name + ".value", kWidth, kWidth, 0.3F);
    add_linear(name + ".out", kWidth, kWidth, out_scale);
}

WhisperCheckpoint::Tensor& WhisperCheckpoint::tensor(const std::string& name) {
    return *std::ranges::find(tensors, name, &Tensor::name);
}

std::string WhisperCheckpoint::header() const {
    std::string out;
    append(out, magic);
    for (const std::int32_t value : parameters) append(out, value);
    append(out, mel_bins);
    append(out, mel_frequencies);
    out += mel_filters;
    append(out, static_cast<std::int32_t>(tokens.size()));
    for (const std::string& token : tokens) {
        append(out, static_cast<std::int32_t>(token.size()));
        out += token;
    }
    return out;
}

std::string WhisperCheckpoint::bytes() const {
    std::string out = header();
    for (const Tensor& each : tensors) {
        append(out, static_cast<std::int32_t>(each.shape.size()));
        append(out, static_cast<std::int32_t>(each.name.size()));
        append(out, each.type);
        for (auto extent = each.shape.rbegin(); extent != each.shape.rend(); ++extent) {
            append(out, *extent);
        }
        out += each.name + each.numbers;
    }
    return out;
}

}  // namespace wavepool::testing
