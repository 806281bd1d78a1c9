#include "framework/tensors/tensor_source.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "framework/compute/backend.h"
#include "tests/support/error_code.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/safetensors_builder.h"

namespace wavepool {
namespace {

using testing::code_thrown_by;
using testing::GgufBuilder;
using testing::noise;
using testing::SafetensorsBuilder;
using testing::TemporaryFolder;
using Shape = std::vector<std::int64_t>;

const std::string kInvalid = "MODEL_FILE_INVALID";

/// Part `index` of `count`, with tensor "tNUMBER" of one element NUMBER.
std::string split_part(std::uint32_t index, std::uint32_t count, int number,
                       std::uint32_t tensors) {
    return GgufBuilder()
        .string("general.architecture", "toy" + std::to_string(index))
        .uint32("split.no", index)
        .uint32("split.count", count)
        .uint32("split.tensors.count", tensors)
        .f32("t" + std::to_string(number), {1}, {static_cast<float>(number)})
        .bytes();
}

std::string code_of_opening(const std::filesystem::path& file) {
    return code_thrown_by([&] { (void)open_tensor_source(file); });
}

TEST(TensorSource, RecognizesFormatsByContentWhateverTheName) {
    const TemporaryFolder folder;
    const auto gguf = folder.write("a.bin", GgufBuilder().f32("a", {1}, {1}).bytes());
    const auto safetensors =
        folder.write("b.gguf", SafetensorsBuilder().f32("a", {1}, {2}).bytes());
    // Its ninth byte is that of a Safetensors header.
    const auto index = folder.write("c", R"({"meta":{"x":1},"weight_map":{"a":"b.gguf"}})");
    EXPECT_EQ(open_tensor_source(gguf)->scalar("a"), 1);
    EXPECT_EQ(open_tensor_source(safetensors)->scalar("a"), 2);
    EXPECT_EQ(open_tensor_source(index)->scalar("a"), 2);
    EXPECT_EQ(code_of_opening(folder.write("d", "RIFF")), kInvalid);
    EXPECT_EQ(code_of_opening(folder.path() / "e"), "INPUT_NOT_FOUND");
}

TEST(TensorSource, AGgufSplitIsOneSourceWhicheverPartIsOpened) {
    const TemporaryFolder folder;
    const auto first = folder.write("m-00001-of-00002.gguf", split_part(0, 2, 1, 2));
    const auto second = folder.write("m-00002-of-00002.gguf", split_part(1, 2, 2, 2));
    for (const auto& part : {first, second}) {
        const auto source = open_tensor_source(part, {.synchronized = true});
        EXPECT_EQ(source->names(), (std::vector<std::string>{"t1", "t2"}));
        EXPECT_EQ(source->scalar("t1"), 1);
        EXPECT_EQ(source->scalar("t2"), 2);
        EXPECT_EQ(source->string("general.architecture"), "toy0") << "the first part's metadata";
        EXPECT_TRUE(source->synchronized()) << "the option reaches every part";
        EXPECT_FALSE(open_tensor_source(part)->synchronized());
    }
}

TEST(TensorSource, RefusesGgufSplitsThatDoNotFitTogether) {
    const TemporaryFolder folder;
    const auto open = [&](const std::string& second, const std::string& name = "m") {
        (void)folder.write("m-00002-of-00002.gguf", second);
        return code_of_opening(folder.write(name + "-00001-of-00002.gguf", split_part(0, 2, 1, 2)));
    };
    EXPECT_EQ(open(split_part(1, 2, 2, 2)), "nothing");
    EXPECT_EQ(open(split_part(0, 2, 2, 2)), kInvalid) << "not the part that it is named";
    EXPECT_EQ(open(split_part(1, 3, 2, 2)), kInvalid) << "of another split";
    EXPECT_EQ(open(split_part(1, 2, 1, 2)), kInvalid) << "a tensor twice";
    EXPECT_EQ(open(GgufBuilder().f32("t2", {1}, {2}).bytes()), kInvalid) << "no part at all";
    EXPECT_EQ(open(split_part(1, 2, 2, 2), "other"), "INPUT_NOT_FOUND");
    EXPECT_EQ(code_of_opening(folder.write("plain.gguf", split_part(0, 2, 1, 2))), kInvalid);
    EXPECT_EQ(code_of_opening(folder.write("m-00003-of-00002.gguf", split_part(2, 2, 3, 2))),
              kInvalid);
    (void)folder.write("n-00002-of-00002.gguf", split_part(1, 2, 2, 3));
    EXPECT_EQ(code_of_opening(folder.write("n-00001-of-00002.gguf", split_part(0, 2, 1, 3))),
              kInvalid)
        << "a tensor is missing";
}

TEST(TensorSource, ASafetensorsIndexIsOneSourceOverItsFiles) {
    const TemporaryFolder folder;
    (void)folder.write("a.safetensors",
                       SafetensorsBuilder().f32("x", {1}, {1}).f32("unlisted", {1}, {9}).bytes());
    (void)folder.write("b.safetensors", SafetensorsBuilder().f32("y", {1}, {2}).bytes());
    const auto open = [&](const std::string& json, bool synchronized = false) {
        return open_tensor_source(folder.write("model.safetensors.index.json", json),
                                  {.synchronized = synchronized});
    };
    const auto source =
        open(R"({"metadata":{},"weight_map":{"y":"b.safetensors","x":"a.safetensors"}})", true);
    EXPECT_EQ(source->names(), (std::vector<std::string>{"x", "y"}));
    EXPECT_EQ(source->scalar("x"), 1);
    EXPECT_EQ(source->scalar("y"), 2);
    EXPECT_TRUE(source->synchronized());
    EXPECT_FALSE(source->find("unlisted").has_value());

    const auto code = [&](const std::string& json) {
        return code_thrown_by([&] { (void)open(json); });
    };
    EXPECT_EQ(code(R"({"weight_map":{"x":"b.safetensors"}})"), kInvalid) << "not in that file";
    EXPECT_EQ(code(R"({"weight_map":{"x":"c.safetensors"}})"), "INPUT_NOT_FOUND");
    EXPECT_EQ(code(R"({"weight_map":{"x":"../a.safetensors"}})"), kInvalid);
    EXPECT_EQ(code(R"({"weight_map":{"x":".."}})"), kInvalid);
    EXPECT_EQ(code(R"({"weight_map":{"x":7}})"), kInvalid);
    EXPECT_EQ(code(R"({"weight_map":{}})"), kInvalid);
    EXPECT_EQ(code(R"({"weight_map":{"x":"a.safetensors","x":"b.safetensors"}})"), kInvalid);
    EXPECT_EQ(code("{\"weight_map\":"), kInvalid);
}

TEST(TensorSource, ReadsTheFileItOpenedOrRefusesIt) {
    const TemporaryFolder folder;
    const auto file = folder.write("a", GgufBuilder().f32("a", {1}, {1}).bytes());
    const auto source = open_tensor_source(file);
    source->release_storage();
    (void)folder.write("b", GgufBuilder().f32("a", {1}, {2}).bytes());
    std::filesystem::rename(folder.path() / "b", file);
    EXPECT_EQ(source->scalar("a"), 1) << "the file that took its name is another";

    const auto changing = open_tensor_source(file);
    changing->release_storage();
    std::filesystem::resize_file(file, 64);
    EXPECT_EQ(code_thrown_by([&] { (void)changing->scalar("a"); }), kInvalid);
}

TEST(TensorSource, BytesThatAreHeldOutliveTheReleaseAndTheSource) {
    const TemporaryFolder folder;
    auto source = open_tensor_source(
        folder.write("a", SafetensorsBuilder().tensor("a", {4}, "U8", "abcd").bytes()));
    const StoredBytes held = source->stored("a");
    source->release_storage();
    source.reset();
    EXPECT_EQ(static_cast<char>(held.bytes[3]), 'd');
}

// T1
TEST(TensorSource, SynchronizedReadersAreRightWhileStorageIsReleased) {
    constexpr int kReads = 100;
    constexpr int kReleases = 1000;
    constexpr std::size_t kElements = 4096;
    const TemporaryFolder folder;
    const auto values = noise(kElements, 3);
    const Shape shape{kElements};
    const std::array files{
        folder.write("a.safetensors",
                     SafetensorsBuilder().f32("m", shape, values).f32("s", {}, {5}).bytes()),
        folder.write("a.gguf", GgufBuilder().f32("m", shape, values).f32("s", {}, {5}).bytes()),
        folder.write("index.json", R"({"weight_map":{"m":"a.safetensors","s":"a.safetensors"}})"),
    };
    for (const auto& file : files) {
        const auto source = open_tensor_source(file, {.synchronized = true});
        std::atomic<int> right = 0;
        {
            std::vector<std::jthread> threads;
            for (int reader = 0; reader < 2; ++reader) {
                threads.emplace_back([&] {
                    for (int i = 0; i < kReads; ++i) {
                        right += source->f32("m", shape) == values && source->scalar("s") == 5;
                    }
                });
            }
            // An upload to a backend reads the tensors, too.
            threads.emplace_back([&] {
                ContextPtr context(ggml_init({ggml_tensor_overhead(), nullptr, true}));
                ggml_tensor* tensor =
                    ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, shape.front());
                const BufferPtr buffer(ggml_backend_alloc_ctx_tensors_from_buft(
                    context.get(), ggml_backend_cpu_buffer_type()));
                std::vector<float> uploaded(kElements);
                for (int i = 0; i < kReads; ++i) {
                    const StoredBytes stored = source->stored("m");
                    ggml_backend_tensor_set(tensor, stored.bytes.data(), 0, stored.bytes.size());
                    ggml_backend_tensor_get(tensor, uploaded.data(), 0, stored.bytes.size());
                    right += uploaded == values;
                }
            });
            threads.emplace_back([&] {
                for (int i = 0; i < kReleases; ++i) source->release_storage();
            });
        }
        EXPECT_EQ(right, 3 * kReads) << file;
    }
}

}  // namespace
}  // namespace wavepool
