#include "framework/tensors/gguf_header.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "framework/tensors/tensor_source.h"
#include "tests/support/error_code.h"
#include "tests/support/gguf_builder.h"

namespace wavepool {
namespace {

using testing::code_thrown_by;
using testing::GgufBuilder;
using testing::TemporaryFolder;
using Shape = std::vector<std::int64_t>;

constexpr std::uint32_t kF16 = 1;
constexpr std::uint32_t kQ8 = 8;
constexpr std::uint32_t kI8 = 24;

/// A file with one value of every type that the project reads.
GgufBuilder complete() {
    std::string q8("\x00\x38", 2);  // the scale 0.5 as f16
    for (int i = 0; i < 32; ++i) q8.push_back(static_cast<char>(i - 16));
    return GgufBuilder()
        .string("general.architecture", "toy")
        .uint32("toy.layers", 6)
        .uint64("toy.huge", std::numeric_limits<std::uint64_t>::max())
        .float32("toy.epsilon", 0.25F)
        .strings("toy.tokens", {"a", "", "€"})
        .f32("matrix", {2, 3}, {1, 2, 3, 4, 5, 6})
        .tensor("half", {2}, kF16, std::string("\x00\x3c\x00\xc0", 4))
        .tensor("blocks", {1, 32}, kQ8, q8)
        .tensor("bytes", {3}, kI8, std::string("\x80\x00\x7f", 3))
        .f32("bytes.scale", {1}, {0.5F})
        .f32("bytes.offset", {1}, {1.0F});
}

std::string code_of(const std::string& bytes) {
    // Exactly sized, so that a sanitizer sees the first byte read beyond it.
    const std::vector<char> exact(bytes.begin(), bytes.end());
    return code_thrown_by([&] {
        const GgufHeader header = parse_gguf(std::as_bytes(std::span(exact)));
        for (const auto& [key, value] : header.metadata) {
            (void)decode_value(std::as_bytes(std::span(exact)), value);
        }
    });
}

TEST(Gguf, ReadsMetadataAndEveryTensorType) {
    const TemporaryFolder folder;
    const auto source = open_tensor_source(folder.write("toy.gguf", complete().bytes()));
    const TensorSource& file = *source;
    EXPECT_EQ(file.string("general.architecture"), "toy");
    EXPECT_EQ(file.integer("toy.layers"), 6);
    EXPECT_EQ(file.number("toy.epsilon"), 0.25);
    EXPECT_EQ(file.strings("toy.tokens"), (std::vector<std::string>{"a", "", "€"}));

    EXPECT_EQ(file.f32("matrix", Shape{2, 3}), (std::vector<float>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(file.f32("half", Shape{2}), (std::vector<float>{1, -2}));
    const auto blocks = file.f32("blocks", Shape{1, 32});
    EXPECT_EQ(blocks.front(), -8.0F);
    EXPECT_EQ(blocks.back(), 7.5F);
    EXPECT_EQ(file.f32("bytes", Shape{3}), (std::vector<float>{-63, 1, 64.5F}));

    const auto stored = file.i8("bytes", Shape{3});
    EXPECT_EQ(stored.values, (std::vector<std::int8_t>{-128, 0, 127}));
    EXPECT_EQ(stored.scale, 0.5F);
    EXPECT_EQ(stored.offset, 1.0F);

    ASSERT_TRUE(file.find("matrix").has_value());
    EXPECT_EQ(file.find("matrix")->shape, (Shape{2, 3}));
    EXPECT_EQ(file.find("bytes")->type, TensorType::kI8);
    EXPECT_FALSE(file.find("nothing").has_value());
}

TEST(Gguf, NamesWhatIsMissingOrOfAnotherTypeOrShape) {
    const TemporaryFolder folder;
    const auto source = open_tensor_source(folder.write("toy.gguf", complete().bytes()));
    const TensorSource& file = *source;
    const std::string invalid = "MODEL_FILE_INVALID";
    EXPECT_EQ(code_thrown_by([&] { (void)file.string("nothing"); }), invalid);
    EXPECT_EQ(code_thrown_by([&] { (void)file.string("toy.layers"); }), invalid);
    EXPECT_EQ(code_thrown_by([&] { (void)file.integer("toy.epsilon"); }), invalid);
    EXPECT_EQ(code_thrown_by([&] { (void)file.integer("toy.huge"); }), invalid);
    EXPECT_EQ(code_thrown_by([&] { (void)file.number("toy.layers"); }), invalid);
    EXPECT_EQ(code_thrown_by([&] { (void)file.strings("general.architecture"); }), invalid);
    EXPECT_EQ(code_thrown_by([&] { (void)file.i8("matrix", Shape{2, 3}); }), invalid);
    EXPECT_EQ(code_thrown_by([&] { (void)file.f32("nothing", Shape{1}); }), invalid);
    try {
        (void)file.f32("matrix", Shape{3, 2});
        FAIL() << "the shape was accepted";
    } catch (const Error& error) {
        const std::string what = error.what();
        EXPECT_NE(what.find("matrix has shape [2, 3], expected [3, 2]"), std::string::npos) << what;
    }
}

TEST(Gguf, RefusesNumbersThatAreNotFinite) {
    const TemporaryFolder folder;
    const float nan = std::nanf("");
    const auto source = open_tensor_source(folder.write(
        "toy.gguf", GgufBuilder()
                        .float32("number", nan)
                        .f32("weights", {2}, {1, std::numeric_limits<float>::infinity()})
                        .tensor("bytes", {1}, kI8, "a")
                        .f32("bytes.scale", {1}, {nan})
                        .f32("bytes.offset", {1}, {0})
                        .bytes()));
    const TensorSource& file = *source;
    EXPECT_EQ(code_thrown_by([&] { (void)file.number("number"); }), "MODEL_FILE_INVALID");
    EXPECT_EQ(code_thrown_by([&] { (void)file.f32("weights", Shape{2}); }), "MODEL_FILE_INVALID");
    EXPECT_EQ(code_thrown_by([&] { (void)file.i8("bytes", Shape{1}); }), "MODEL_FILE_INVALID");
}

TEST(Gguf, RefusesWhatIsNotAModelFile) {
    const TemporaryFolder folder;
    const auto code = [](const std::filesystem::path& path) {
        return code_thrown_by([&] { (void)open_tensor_source(path); });
    };
    EXPECT_EQ(code(folder.path() / "nothing.gguf"), "INPUT_NOT_FOUND");
    EXPECT_EQ(code(folder.path()), "MODEL_FILE_INVALID");
    EXPECT_EQ(code("/dev/zero"), "MODEL_FILE_INVALID");
    EXPECT_EQ(code(folder.write("empty.gguf", "")), "MODEL_FILE_INVALID");
    EXPECT_EQ(code(folder.write("text.gguf", "not a model, but longer than a header")),
              "MODEL_FILE_INVALID");
}

TEST(Gguf, EveryTruncationIsRefused) {
    const std::string whole = complete().bytes();
    ASSERT_EQ(code_of(whole), "nothing");
    // Behind the last tensor there is padding, which nothing needs.
    const std::size_t needed = whole.size() - 32 + sizeof(float);
    for (std::size_t size = 0; size < needed; ++size) {
        ASSERT_EQ(code_of(whole.substr(0, size)), "MODEL_FILE_INVALID") << size << " bytes";
    }
    EXPECT_EQ(code_of(whole.substr(0, needed)), "nothing");
}

TEST(Gguf, AnyChangedByteIsReadOrRefusedButNeverTrusted) {
    const std::string whole = complete().bytes();
    for (std::size_t position = 0; position < whole.size(); ++position) {
        for (const int pattern : {0x01, 0x80, 0xff, 0x7f, 0x10}) {
            std::string changed = whole;
            changed[position] = static_cast<char>(changed[position] ^ pattern);
            const std::string code = code_of(changed);
            ASSERT_TRUE(code == "nothing" || code == "MODEL_FILE_INVALID") << code;
        }
    }
}

TEST(Gguf, HostileSizesCostNeitherMemoryNorTime) {
    const std::string whole = complete().bytes();
    const auto with = [&](std::size_t position, std::uint64_t value) {
        std::string changed = whole;
        std::memcpy(changed.data() + position, &value, sizeof(value));
        return code_of(changed);
    };
    for (const std::uint64_t huge : {std::uint64_t{1} << 32, std::uint64_t{1} << 62,
                                     std::numeric_limits<std::uint64_t>::max()}) {
        // The number is written at every position, so also over every count, length, extent and
        // offset.
        for (std::size_t position = 4; position + 8 <= whole.size() - 256; ++position) {
            const std::string code = with(position, huge);
            ASSERT_TRUE(code == "nothing" || code == "MODEL_FILE_INVALID") << code;
        }
        EXPECT_EQ(with(8, huge), "MODEL_FILE_INVALID") << "tensor count";
        EXPECT_EQ(with(16, huge), "MODEL_FILE_INVALID") << "metadata count";
        EXPECT_EQ(with(24, huge), "MODEL_FILE_INVALID") << "length of the first key";
    }
}

TEST(Gguf, RefusesContradictionsInTheTables) {
    const std::string invalid = "MODEL_FILE_INVALID";
    EXPECT_EQ(code_of(complete().string("toy.layers", "again").bytes()), invalid);
    EXPECT_EQ(code_of(complete().f32("half", {1}, {1}).bytes()), invalid);
    EXPECT_EQ(code_of(complete().f32("none", {0}, {}).bytes()), invalid);
    EXPECT_EQ(code_of(complete().f32("negative", {-1}, {}).bytes()), invalid);
    EXPECT_EQ(code_of(complete().f32("five", {1, 1, 1, 1, 1}, {1}).bytes()), invalid);
    EXPECT_EQ(code_of(complete().f32("", {1}, {1}).bytes()), invalid);
    EXPECT_EQ(code_of(complete().f32(std::string(64, 'n'), {1}, {1}).bytes()), invalid);
    EXPECT_EQ(code_of(complete().tensor("q4_0", {32}, 2, std::string(18, 'x')).bytes()), invalid);
    EXPECT_EQ(code_of(complete().tensor("ragged", {33}, kQ8, std::string(34, 'x')).bytes()),
              invalid);
    EXPECT_EQ(code_of(complete().uint32("general.alignment", 3).bytes()), invalid);
    const TemporaryFolder folder;
    const auto file =
        folder.write("lone.gguf", GgufBuilder().tensor("bytes", {1}, kI8, "a").bytes());
    EXPECT_EQ(code_thrown_by([&] { (void)open_tensor_source(file); }), invalid);
}

}  // namespace
}  // namespace wavepool
