#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "framework/tensors/safetensors_header.h"
#include "framework/tensors/tensor_source.h"
#include "tests/support/error_code.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/safetensors_builder.h"

namespace wavepool {
namespace {

using testing::code_thrown_by;
using testing::raw_bytes;
using testing::SafetensorsBuilder;
using testing::TemporaryFolder;
using Shape = std::vector<std::int64_t>;

const std::string kInvalid = "MODEL_FILE_INVALID";

SafetensorsBuilder complete() {
    return SafetensorsBuilder()
        .metadata("format", "pt")
        .metadata("general.architecture", "toy")
        .f32("matrix", {2, 3}, {1, 2, 3, 4, 5, 6})
        .tensor("half", {2}, "F16", std::string("\x00\x3c\x00\xc0", 4))
        .tensor("brain", {2}, "BF16", std::string("\x80\x3f\x00\xc0", 4))
        .tensor("double", {1, 1}, "F64", raw_bytes<double>({0.25}))
        .tensor("count", {}, "I64", raw_bytes<std::int64_t>({-7}))
        .tensor("bytes", {3}, "I8", std::string("\x80\x00\x7f", 3))
        .f32("bytes.scale", {}, {0.5F})
        .f32("bytes.offset", {1}, {1.0F});
}

std::string code_of(const std::string& bytes) {
    // Exactly sized, so that a sanitizer sees the first byte read beyond it.
    const std::vector<char> exact(bytes.begin(), bytes.end());
    return code_thrown_by([&] { (void)parse_safetensors(std::as_bytes(std::span(exact))); });
}

std::string code_of(const std::string& header, const std::string& data) {
    return code_of(SafetensorsBuilder::bytes(header, data));
}

TEST(Safetensors, ReadsMetadataAndEveryTensorTypeThatModelsUse) {
    const TemporaryFolder folder;
    const auto file = open_tensor_source(folder.write("toy.safetensors", complete().bytes()));
    EXPECT_EQ(file->string("format"), "pt");
    EXPECT_FALSE(file->metadata("nothing").has_value());
    EXPECT_EQ(file->f32("matrix", Shape{2, 3}), (std::vector<float>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(file->f32("half", Shape{2}), (std::vector<float>{1, -2}));
    EXPECT_EQ(file->f32("brain", Shape{2}), (std::vector<float>{1, -2}));
    EXPECT_EQ(file->f32("double", Shape{1, 1}), (std::vector<float>{0.25F}));
    EXPECT_EQ(file->f32("bytes", Shape{3}), (std::vector<float>{-63, 1, 64.5F}));
    EXPECT_EQ(file->i8("bytes", Shape{3}).values, (std::vector<std::int8_t>{-128, 0, 127}));
    EXPECT_EQ(file->scalar("count"), -7);
    EXPECT_EQ(file->find("count")->shape, Shape{});
    EXPECT_EQ(file->names(),
              (std::vector<std::string>{"brain", "bytes", "bytes.offset", "bytes.scale", "count",
                                        "double", "half", "matrix"}));
}

TEST(Safetensors, NamesWhatIsMissingOrOfAnotherTypeOrShape) {
    const TemporaryFolder folder;
    const float infinity = std::numeric_limits<float>::infinity();
    const auto file = open_tensor_source(folder.write(
        "toy.safetensors",
        complete()
            .f32("endless", {1}, {infinity})
            .tensor("lone", {1}, "I8", "a")
            .tensor("large", {1}, "I64", raw_bytes<std::int64_t>({(std::int64_t{1} << 53) + 1}))
            .bytes()));
    const auto code = [&](auto read) { return code_thrown_by([&] { (void)read(); }); };
    EXPECT_EQ(code([&] { return file->string("nothing"); }), kInvalid);
    EXPECT_EQ(code([&] { return file->integer("format"); }), kInvalid);
    EXPECT_EQ(code([&] { return file->f32("matrix", Shape{3, 2}); }), kInvalid);
    EXPECT_EQ(code([&] { return file->f32("nothing", Shape{1}); }), kInvalid);
    EXPECT_EQ(code([&] { return file->f32("count", Shape{}); }), kInvalid) << "integers";
    EXPECT_EQ(code([&] { return file->f32("endless", Shape{1}); }), kInvalid);
    EXPECT_EQ(code([&] { return file->f32("lone", Shape{1}); }), kInvalid) << "no scale";
    EXPECT_EQ(code([&] { return file->i8("matrix", Shape{2, 3}); }), kInvalid);
    EXPECT_EQ(code([&] { return file->scalar("matrix"); }), kInvalid);
    EXPECT_EQ(code([&] { return file->scalar("large"); }), kInvalid) << "not exact in a double";
    EXPECT_EQ(code([&] { return file->stored("nothing").bytes.size(); }), kInvalid);
}

TEST(Safetensors, EveryTruncationAndAnyBytesBehindTheDataAreRefused) {
    const std::string whole = complete().bytes();
    ASSERT_EQ(code_of(whole), "nothing");
    for (std::size_t size = 0; size < whole.size(); ++size) {
        ASSERT_EQ(code_of(whole.substr(0, size)), kInvalid) << size << " bytes";
    }
    EXPECT_EQ(code_of(whole + "x"), kInvalid);
}

TEST(Safetensors, AHostileHeaderLengthCostsNothing) {
    const std::string whole = complete().bytes();
    for (const std::uint64_t length :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{whole.size()}, std::uint64_t{1} << 32,
          std::uint64_t{1} << 62, UINT64_MAX, UINT64_MAX - 7}) {
        std::string changed = whole;
        std::memcpy(changed.data(), &length, sizeof(length));
        EXPECT_EQ(code_of(changed), kInvalid) << length;
        const TemporaryFolder folder;
        EXPECT_EQ(code_thrown_by(
                      [&] { (void)open_tensor_source(folder.write("toy.safetensors", changed)); }),
                  kInvalid);
    }
}

TEST(Safetensors, RefusesSizesAndOffsetsThatCannotBe) {
    const auto entry = [](const std::string& shape, const std::string& offsets) {
        return code_of(
            R"({"a":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}",
            "12345678");
    };
    EXPECT_EQ(entry("[2]", "[0,8]"), "nothing");
    for (const char* shape :
         {"[3]", "[1]", "[0]", "[-2]", "[2.0]", "[\"2\"]", "2", "null", "[4611686018427387906]",
          "[9223372036854775807,2]", "[4294967296,4294967296,2]", "[18446744073709551615]", "[1e3]",
          "[2,1,1,1,1,1,1,1,1]"}) {
        EXPECT_EQ(entry(shape, "[0,8]"), kInvalid) << shape;
    }
    for (const char* offsets :
         {"[0,4]", "[4,8]", "[4,12]", "[8,0]", "[0]", "[0,8,8]", "[-8,0]", "[0,8.0]", "null",
          "[0,18446744073709551615]", "[18446744073709551608,0]", "[0,\"8\"]"}) {
        EXPECT_EQ(entry("[2]", offsets), kInvalid) << offsets;
    }
}

TEST(Safetensors, RefusesTensorsThatOverlapOrLeaveGaps) {
    const auto pair = [](const std::string& first, const std::string& second) {
        const auto entry = [](const char* name, const std::string& offsets) {
            return std::string("\"") + name + R"(":{"dtype":"F32","shape":[1],"data_offsets":)" +
                   offsets + "}";
        };
        return code_of("{" + entry("a", first) + "," + entry("b", second) + "}", "12345678");
    };
    EXPECT_EQ(pair("[0,4]", "[4,8]"), "nothing");
    EXPECT_EQ(pair("[4,8]", "[0,4]"), "nothing");
    EXPECT_EQ(pair("[0,4]", "[0,4]"), kInvalid);
    EXPECT_EQ(pair("[0,4]", "[2,6]"), kInvalid);
    EXPECT_EQ(pair("[1,5]", "[4,8]"), kInvalid);
}

TEST(Safetensors, RefusesContradictionsInTheHeader) {
    const std::string good = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
    const auto with = [&](const std::string& header) { return code_of(header, "1234"); };
    EXPECT_EQ(with(R"({"a":)" + good + "}   "), "nothing") << "padded with spaces";
    EXPECT_EQ(with(R"({"a":)" + good + R"(,"a":)" + good + "}"), kInvalid) << "a name twice";
    EXPECT_EQ(with(R"({"":)" + good + "}"), kInvalid);
    EXPECT_EQ(with("{\"" + std::string(1025, 'n') + "\":" + good + "}"), kInvalid);
    EXPECT_EQ(with(R"( {"a":)" + good + "}"), kInvalid) << "does not begin with {";
    EXPECT_EQ(with(R"([{"a":)" + good + "}]"), kInvalid);
    EXPECT_EQ(with(R"({"a":)" + good + "}!"), kInvalid);
    EXPECT_EQ(with(R"({"a":7})"), kInvalid);
    EXPECT_EQ(with(R"({"a":{"dtype":"F32","shape":[1]}})"), kInvalid);
    EXPECT_EQ(with(R"({"a":{"dtype":"F32","shape":[1],"offsets":[0,4]}})"), kInvalid);
    EXPECT_EQ(with(R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})"), kInvalid);
    EXPECT_EQ(with(R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})"), kInvalid);
    EXPECT_EQ(with(R"({"__metadata__":7,"a":)" + good + "}"), kInvalid);
    EXPECT_EQ(with(R"({"__metadata__":{"k":7},"a":)" + good + "}"), kInvalid);
    EXPECT_EQ(code_of("{}", ""), "nothing");
    EXPECT_EQ(code_of("{}", "1"), kInvalid);
}

}  // namespace
}  // namespace wavepool
