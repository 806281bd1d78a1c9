// Damaged model files: read or refused, never trusted. The seed of a failure is in its message.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include <nlohmann/json.hpp>
#include "framework/tensors/gguf_header.h"

#include "framework/json.h"
#include "framework/tensors/safetensors_header.h"
#include "tests/support/error_code.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/safetensors_builder.h"

namespace wavepool {
namespace {

using testing::code_thrown_by;

constexpr std::uint32_t kSeeds = 4000;

std::string gguf() {
    return testing::GgufBuilder()
        .string("general.architecture", "toy")
        .uint32("toy.layers", 6)
        .strings("toy.tokens", {"a", "", "€"})
        .f32("matrix", {2, 3}, {1, 2, 3, 4, 5, 6})
        .tensor("bytes", {3}, 24, "abc")
        .f32("bytes.scale", {1}, {0.5F})
        .f32("bytes.offset", {1}, {1.0F})
        .bytes();
}

std::string safetensors() {
    return testing::SafetensorsBuilder()
        .metadata("format", "pt")
        .f32("matrix", {2, 3}, {1, 2, 3, 4, 5, 6})
        .tensor("count", {}, "I64", "12345678")
        .tensor("bytes", {3}, "I8", "abc")
        .bytes();
}

/// A few changes of the kinds that break parsers: bytes, numbers, pieces moved, cut or doubled.
std::string mutated(std::string bytes, std::uint32_t seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::size_t limit) {
        return random() % std::max<std::size_t>(limit, 1);
    };
    static constexpr std::string_view kTokens = "{}[]\",:0123456789-e.\\u\0 ";
    for (std::size_t change = 1 + below(4); change > 0 && !bytes.empty(); --change) {
        const std::size_t at = below(bytes.size());
        const std::size_t length = std::min(1 + below(16), bytes.size() - at);
        switch (below(7)) {
            case 0:
                bytes[at] = static_cast<char>(random());
                break;
            case 1:
                bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
                break;
            case 2:
                bytes[at] = kTokens[below(kTokens.size())];
                break;
            case 3:
                bytes.erase(at, length);
                break;
            case 4:
                bytes.insert(below(bytes.size()), bytes.substr(at, length));
                break;
            case 5:
                bytes.resize(at);
                break;
            default:
                for (std::size_t i = at; i < at + std::min<std::size_t>(length, 8); ++i) {
                    bytes[i] = static_cast<char>(random() % 2 == 0 ? 0xff : 0x00);
                }
        }
    }
    return bytes;
}

template <typename Parse>
void survives(const std::string& whole, Parse parse) {
    std::size_t read = 0;
    for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
        const std::string changed = mutated(whole, seed);
        // Exactly sized, so that a sanitizer sees the first byte read beyond it.
        const std::vector<char> exact(changed.begin(), changed.end());
        const std::string code = code_thrown_by([&] { parse(std::as_bytes(std::span(exact))); });
        ASSERT_TRUE(code == "nothing" || code == "MODEL_FILE_INVALID")
            << code << " with seed " << seed;
        read += code == "nothing";
    }
    // Otherwise the changes would be too coarse to reach what lies behind the first checks.
    EXPECT_GT(read, 0U);
    EXPECT_LT(read, kSeeds);
}

template <typename Tensors>
void read_every_tensor(std::span<const std::byte> file, const Tensors& tensors) {
    for (const auto& [name, tensor] : tensors) {
        const auto bytes = file.subspan(tensor.offset, tensor.info.bytes);
        std::vector<float> values(tensor.info.elements);
        (void)decode_floats(tensor.info.type, bytes, values);
        (void)decode_scalar(tensor.info.type, bytes);
    }
}

TEST(TensorFuzz, GgufHeadersAreReadOrRefused) {
    survives(gguf(), [](std::span<const std::byte> file) {
        const GgufHeader header = parse_gguf(file);
        for (const auto& [key, value] : header.metadata) (void)decode_value(file, value);
        read_every_tensor(file, header.tensors);
    });
}

TEST(TensorFuzz, SafetensorsHeadersAreReadOrRefused) {
    survives(safetensors(), [](std::span<const std::byte> file) {
        read_every_tensor(file, parse_safetensors(file).tensors);
    });
}

TEST(TensorFuzz, JsonIsReadOrRefused) {
    survives(R"({"weight_map": {"a": "1.st", "b": [1, -2.5e3, true, null, "\u20ac€"]}})",
             [](std::span<const std::byte> text) {
                 (void)parse_json({reinterpret_cast<const char*>(text.data()), text.size()});
             });
}

}  // namespace
}  // namespace wavepool
