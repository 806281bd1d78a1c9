// What whisper.cpp would end the process for is refused before it sees the file.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <random>

#include "framework/models/model.h"
#include "framework/tensors/ggml_bin_header.h"
#include "models/families.h"
#include "models/whisper/checkpoint/checkpoint.h"
#include "tests/support/error_code.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/whisper_checkpoint.h"

namespace wavepool::whisper {
namespace {

using testing::code_thrown_by;
using testing::WhisperCheckpoint;

class WhisperFile : public ::testing::Test {
  protected:
    std::string loading(const std::string& bytes) const {
        const auto file = folder_.write("model.bin", bytes);
        return code_thrown_by([&] { static_cast<void>(load_model(file, families())); });
    }
    std::string planning(const std::string& bytes) const {
        const auto file = folder_.write("model.bin", bytes);
        return code_thrown_by([&] { static_cast<void>(plan_model(file, {}, families())); });
    }

    testing::TemporaryFolder folder_;
};

TEST_F(WhisperFile, TellsItsSizesVocabularyAndTensors) {
    const WhisperCheckpoint checkpoint(true);
    const auto source = open_tensor_source(folder_.write("model.bin", checkpoint.bytes()));
    EXPECT_EQ(source->string("general.architecture"), "whisper");
    EXPECT_EQ(source->integer("whisper.vocab_size"), 51865);
    EXPECT_EQ(source->strings("tokenizer.tokens").at(220), " ");
    EXPECT_EQ(source->find("encoder.conv1.weight")->shape, (std::vector<std::int64_t>{64, 80, 3}));
    EXPECT_EQ(source->find("mel_filters")->shape, (std::vector<std::int64_t>{80, 201}));
    EXPECT_FALSE(source->metadata("whisper.unknown").has_value());
}

TEST_F(WhisperFile, IsPlannedAsItLoads) {
    const auto file = folder_.write("model.bin", WhisperCheckpoint(true).bytes());
    const ModelPlan plan = plan_model(file, {}, families());
    const auto model = load_model(file, families());
    EXPECT_EQ(plan.info.family, "whisper");
    EXPECT_EQ(plan.info.weight_bytes, model->info().weight_bytes);
    EXPECT_EQ(plan.info.languages.size(), 99U);
    EXPECT_EQ(plan.info.languages.front(), "en");
    EXPECT_EQ(plan.info.option_names, model->info().option_names);
    EXPECT_TRUE(plan.info.native_batch);
    EXPECT_EQ(plan.capacity, 16U);
    const auto bytes = static_cast<double>(model->create_session({})->private_bytes());
    EXPECT_NEAR(static_cast<double>(plan.session_bytes) / bytes, 1, 0.1);
}

using Damage = std::function<void(WhisperCheckpoint&)>;

TEST_F(WhisperFile, RefusesWhatDoesNotBelongTogether) {
    const std::vector<std::pair<const char*, Damage>> damages{
        {"magic", [](auto& file) { file.magic = 0x67676d66; }},
        {"fewer tokens than English has", [](auto& file) { file.parameters[0] = 51863; }},
        {"more languages than there are", [](auto& file) { file.parameters[0] = 51867; }},
        {"audio context", [](auto& file) { file.parameters[1] = 1501; }},
        {"head width", [](auto& file) { file.parameters[3] = 2; }},
        {"audio layers", [](auto& file) { file.parameters[4] = 0; }},
        {"a layer too many", [](auto& file) { file.parameters[8] = 2; }},
        {"text context", [](auto& file) { file.parameters[5] = 447; }},
        {"width of the decoder", [](auto& file) { file.parameters[6] = 128; }},
        {"mel bins", [](auto& file) { file.parameters[9] = 81; }},
        {"file type", [](auto& file) { file.parameters[10] = 7; }},
        {"unknown file type", [](auto& file) { file.parameters[10] = 5; }},
        {"negative file type", [](auto& file) { file.parameters[10] = -1; }},
        {"mel filters", [](auto& file) { file.mel_frequencies = 200; }},
        {"negative filters", [](auto& file) { file.mel_bins = -80; }},
        {"too few tokens", [](auto& file) { file.tokens.resize(1000); }},
        {"too many tokens", [](auto& file) { file.tokens.resize(51900); }},
        {"no space", [](auto& file) { file.tokens[220] = "x"; }},
        {"a long token", [](auto& file) { file.tokens[7] = std::string(600, 'x'); }},
        {"a missing tensor", [](auto& file) { file.tensors.pop_back(); }},
        {"a tensor twice", [](auto& file) { file.tensors.push_back(file.tensors.front()); }},
        {"a tensor too many",
         [](auto& file) {
             file.tensors.push_back(file.tensors.front());
             file.tensors.back().name = "encoder.extra";
         }},
        {"a transposed shape",
         [](auto& file) { std::ranges::reverse(file.tensor("encoder.conv1.weight").shape); }},
        {"five dimensions", [](auto& file) { file.tensors.front().shape = {1, 1, 1, 1500, 64}; }},
        {"an empty dimension", [](auto& file) { file.tensors.front().shape = {0, 64}; }},
        {"an overflowing shape",
         [](auto& file) { file.tensors.front().shape = {2147483647, 2147483647, 2147483647}; }},
        {"another type", [](auto& file) { file.tensor("encoder.conv1.bias").type = 1; }},
        {"an unknown type", [](auto& file) { file.tensors.front().type = 99; }},
        {"rows that are not whole blocks",
         [](auto& file) {
             auto& tensor = file.tensor("encoder.conv1.weight");
             tensor.type = 8;  // q8_0, rows of 3
         }},
        {"infinity",
         [](auto& file) { file.tensor("decoder.ln.bias").numbers.replace(2, 2, "\x80\x7f", 2); }},
        {"an infinite half",
         [](auto& file) {
             file.tensor("decoder.token_embedding.weight").numbers.replace(64, 2, "\x00\x7c", 2);
         }},
    };
    for (const auto& [what, damage] : damages) {
        WhisperCheckpoint checkpoint;
        damage(checkpoint);
        EXPECT_EQ(loading(checkpoint.bytes()), "MODEL_FILE_INVALID") << what;
    }
}

TEST_F(WhisperFile, IsRefusedWhereverItIsCut) {
    const std::string whole = WhisperCheckpoint().bytes();
    ASSERT_EQ(planning(whole), "nothing");
    const std::size_t header = WhisperCheckpoint().header().size();
    for (const std::size_t size :
         {std::size_t{4}, std::size_t{47}, std::size_t{60}, std::size_t{70000}, header - 1, header,
          header + 5, whole.size() / 2, whole.size() - 1}) {
        EXPECT_EQ(planning(whole.substr(0, size)), "MODEL_FILE_INVALID") << size;
    }
    EXPECT_EQ(planning(whole + "more"), "MODEL_FILE_INVALID");
}

TEST_F(WhisperFile, OfAnotherGgmlModelIsRefused) {
    std::string other = WhisperCheckpoint().bytes().substr(0, 4);
    other.append("\x0a\x00\x00\x00silero-16k", 14).append(4096, '\1');
    EXPECT_EQ(loading(other), "MODEL_FILE_INVALID");
}

std::string changed(std::string bytes, std::size_t within, std::uint32_t seed) {
    std::mt19937 random(seed);
    for (std::uint32_t change = 1 + random() % 3; change > 0; --change) {
        const std::size_t at = random() % within;
        switch (random() % 5) {
            case 0:
                bytes[at] = static_cast<char>(random());
                break;
            case 1:
                bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
                break;
            case 2:
                bytes.erase(at, 1 + random() % 8);
                break;
            case 3:
                bytes.insert(at, bytes.substr(random() % within, 1 + random() % 8));
                break;
            default:
                for (std::size_t i = at; i < std::min(at + 4, within); ++i) {
                    bytes[i] = static_cast<char>(random() % 2 == 0 ? 0xff : 0x00);
                }
        }
    }
    return bytes;
}

/// Header fields are few among many numbers: each part is damaged by itself.
TEST_F(WhisperFile, DamagedIsReadOrRefused) {
    WhisperCheckpoint small;
    // What follows the tokens is all the parser's; a short vocabulary keeps a seed cheap.
    small.tokens.resize(300);
    for (auto& tensor : small.tensors) {
        tensor.shape = {2, 32};
        tensor.numbers.resize(tensor.type == 0 ? 256 : 128);
    }
    const std::string whole = small.bytes();
    constexpr std::size_t kParameters = 56;
    std::size_t read = 0;
    constexpr std::uint32_t kSeeds = 3000;
    for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
        const std::string damaged =
            changed(whole, seed % 2 == 0 ? kParameters : whole.size(), seed);
        const std::vector<char> exact(damaged.begin(), damaged.end());
        const std::string code = code_thrown_by(
            [&] { static_cast<void>(parse_ggml_bin(std::as_bytes(std::span(exact)))); });
        ASSERT_TRUE(code == "nothing" || code == "MODEL_FILE_INVALID") << code << " " << seed;
        read += code == "nothing";
    }
    EXPECT_GT(read, 0U);
    EXPECT_LT(read, kSeeds);
}

/// The whole way: what passes is loaded, so whisper.cpp meets it.
TEST_F(WhisperFile, DamagedIsLoadedOrRefused) {
    const std::string whole = WhisperCheckpoint().bytes();
    const std::size_t header = WhisperCheckpoint().header().size();
    std::size_t loaded = 0;
    constexpr std::uint32_t kSeeds = 40;
    for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
        const std::string code =
            loading(changed(whole, seed % 2 == 0 ? header : whole.size(), seed));
        ASSERT_TRUE(code == "nothing" || code == "MODEL_FILE_INVALID") << code << " " << seed;
        loaded += code == "nothing";
    }
    EXPECT_GT(loaded, 0U);
    EXPECT_LT(loaded, kSeeds);
}

}  // namespace
}  // namespace wavepool::whisper
