// Whisper tiny.en on real speech, when WAVEPOOL_TEST_MODELS names a folder with
// whisper-tiny.en.gguf (a ggml file: formats are told by content).
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <sstream>

#include "audio/audio_input.h"
#include "models/families.h"
#include "tests/support/error_code.h"
#include "tests/support/gguf_builder.h"

namespace wavepool::whisper {
namespace {

constexpr std::int64_t kRate = 16000;

std::filesystem::path speech_folder() {
    return std::filesystem::path(WAVEPOOL_FIXTURES) / "speech";
}

std::vector<float> samples_of(const std::filesystem::path& file) {
    const auto input = audio::open_file(file);
    input->decode_until(std::numeric_limits<std::int64_t>::max(), {});
    return AudioSegment{input->store(), 0, input->store()->end()}.copy();
}

TaskRequest request_for(std::span<const float> samples, TaskOptions options = {}) {
    auto store = std::make_shared<SampleStore>();
    store->append(samples);
    return {{store, 0, static_cast<std::int64_t>(samples.size())}, nullptr, std::move(options), {}};
}

std::vector<std::string> words_of(const std::string& text) {
    std::string plain;
    for (const char c : text) {
        plain += std::isalpha(static_cast<unsigned char>(c)) != 0
                     ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
                     : ' ';
    }
    std::istringstream stream(plain);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word == "mr" ? "mister" : word);
    return words;
}

std::size_t word_errors(const std::vector<std::string>& expected,
                        const std::vector<std::string>& found) {
    std::vector<std::size_t> previous(found.size() + 1);
    std::iota(previous.begin(), previous.end(), std::size_t{0});
    for (std::size_t i = 1; i <= expected.size(); ++i) {
        std::vector<std::size_t> current{i};
        for (std::size_t j = 1; j <= found.size(); ++j) {
            current.push_back(std::min({previous[j] + 1, current[j - 1] + 1,
                                        previous[j - 1] + (expected[i - 1] != found[j - 1])}));
        }
        previous = current;
    }
    return previous.back();
}

class WhisperTiny : public ::testing::Test {
  protected:
    void SetUp() override {
        const char* folder = std::getenv("WAVEPOOL_TEST_MODELS");
        if (folder != nullptr) file_ = std::filesystem::path(folder) / "whisper-tiny.en.gguf";
        if (!std::filesystem::exists(file_)) {
            GTEST_SKIP() << "NOT TESTED: set WAVEPOOL_TEST_MODELS to a folder with "
                            "whisper-tiny.en.gguf";
        }
    }
    void load() {
        model_ = load_model(file_, families());
        session_ = model_->create_session({.max_batch = 8});
    }
    TaskResult run(const TaskRequest& request) const {
        return dynamic_cast<IOfflineVoiceTaskSession&>(*session_).run(request);
    }

    std::filesystem::path file_;
    std::shared_ptr<const ILoadedModel> model_;
    std::unique_ptr<IVoiceTaskSession> session_;
};

TEST_F(WhisperTiny, HearsTheWordsOfTheFixtures) {
    load();
    std::ifstream table(speech_folder() / "transcripts.tsv");
    std::string line;
    std::getline(table, line);
    std::size_t words = 0;
    std::size_t errors = 0;
    while (std::getline(table, line)) {
        const std::size_t tab = line.find('\t');
        const std::vector<float> samples = samples_of(speech_folder() / line.substr(0, tab));
        std::string text;
        std::span<const float> rest(samples);
        // The one that is longer than a segment has pauses there.
        for (const double pause : {16.82, 11.94}) {
            const auto count = static_cast<std::size_t>(pause * kRate);
            if (samples.size() <= 23 * kRate) break;
            text += run(request_for(rest.first(count))).text + " ";
            rest = rest.subspan(count);
        }
        text += run(request_for(rest)).text;
        words += words_of(line.substr(tab + 1)).size();
        errors += word_errors(words_of(line.substr(tab + 1)), words_of(text));
    }
    EXPECT_GT(words, 180U);
    EXPECT_LE(errors * 25, words) << errors << " of " << words << " words";
}

TEST_F(WhisperTiny, TimesWordsToATenthOfASecondOrTwo) {
    load();
    const std::vector<float> samples = samples_of(speech_folder() / "jfk.mp3");
    const TaskResult result = run(request_for(samples, {{"words", true}}));
    std::vector<TimedWord> words;
    for (const TimedPiece& piece : result.pieces) {
        EXPECT_GT(piece.average_log_probability, -1);
        EXPECT_LT(piece.no_speech_probability, 0.6);
        EXPECT_EQ(piece.temperature, 0);
        words.insert(words.end(), piece.words.begin(), piece.words.end());
    }
    ASSERT_EQ(words.size(), 22U) << result.text;
    EXPECT_EQ(words[5].text.substr(0, 3), "ask");
    // Both follow a pause.
    EXPECT_NEAR(words[5].start, 3.3, 0.3);
    EXPECT_NEAR(words[14].start, 8.2, 0.3);
    EXPECT_EQ(result.language, "en");
    EXPECT_FALSE(result.truncated);
}

TEST_F(WhisperTiny, SpeechAfterOtherSpeechEqualsSpeechAlone) {
    load();
    const auto jfk = request_for(samples_of(speech_folder() / "jfk.mp3"));
    const auto reading = request_for(samples_of(speech_folder() / "sense-0880.flac"));
    const TaskResult first = run(reading);
    static_cast<void>(run(jfk));
    const TaskResult again = run(reading);
    EXPECT_EQ(first.text, again.text);
    EXPECT_EQ(first.tokens, again.tokens);
    EXPECT_EQ(first.pieces.front().average_log_probability,
              again.pieces.front().average_log_probability);
}

TEST_F(WhisperTiny, IsPlannedFromItsHeader) {
    load();
    const ModelPlan plan = plan_model(file_, {.max_batch = 8}, families());
    const auto bytes = static_cast<double>(session_->private_bytes());
    EXPECT_NEAR(static_cast<double>(plan.session_bytes) / bytes, 1, 0.1);
    EXPECT_EQ(plan.info.name, "whisper-tiny.en");
    EXPECT_EQ(plan.info.weight_bytes, model_->info().weight_bytes);
}

TEST_F(WhisperTiny, WithADamagedHeaderIsLoadedOrRefused) {
    std::ifstream input(file_, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(input)), {});
    const testing::TemporaryFolder folder;
    std::mt19937 random(1);
    for (int round = 0; round < 12; ++round) {
        std::string damaged = bytes;
        damaged[random() % (round % 2 == 0 ? 56 : 700000)] ^=
            static_cast<char>(1 << (random() % 8));
        if (round % 3 == 0) damaged.resize(random() % damaged.size());
        const auto file = folder.write("model.bin", damaged);
        const std::string code =
            testing::code_thrown_by([&] { static_cast<void>(plan_model(file, {}, families())); });
        EXPECT_TRUE(code == "nothing" || code == "MODEL_FILE_INVALID") << code;
    }
}

}  // namespace
}  // namespace wavepool::whisper
