// Moonshine tiny on real speech, when WAVEPOOL_TEST_MODELS names a folder with moonshine-tiny.gguf.
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <numeric>
#include <sstream>

#include "audio/audio_input.h"
#include "models/moonshine/moonshine.h"
#include "models/moonshine/session.h"

namespace wavepool::moonshine {
namespace {

std::filesystem::path speech_folder() {
    return std::filesystem::path(WAVEPOOL_FIXTURES) / "speech";
}

struct Clip {
    std::vector<float> samples;
    std::string words;
};

/// The readings that fit into one segment.
std::vector<Clip> clips(double max_seconds) {
    std::ifstream table(speech_folder() / "transcripts.tsv");
    std::string line;
    std::getline(table, line);
    std::vector<Clip> result;
    while (std::getline(table, line)) {
        const std::size_t tab = line.find('\t');
        const auto input = audio::open_file(speech_folder() / line.substr(0, tab));
        input->decode_until(std::numeric_limits<std::int64_t>::max(), {});
        const std::int64_t end = input->store()->end();
        if (static_cast<double>(end) > max_seconds * kSampleRate) continue;
        result.push_back({AudioSegment{input->store(), 0, end}.copy(), line.substr(tab + 1)});
    }
    return result;
}

TaskRequest request_for(const std::vector<float>& samples) {
    auto store = std::make_shared<SampleStore>();
    store->append(samples);
    return {{store, 0, static_cast<std::int64_t>(samples.size())}, nullptr, {}, {}};
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

/// Insertions, deletions and substitutions that lead from one list to the other.
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

class MoonshineTiny : public ::testing::Test {
  protected:
    void SetUp() override {
        const char* folder = std::getenv("WAVEPOOL_TEST_MODELS");
        if (folder == nullptr) {
            GTEST_SKIP() << "NOT TESTED: set WAVEPOOL_TEST_MODELS to a folder with "
                            "moonshine-tiny.gguf";
        }
        model_ = load(*open_tensor_source(std::filesystem::path(folder) / "moonshine-tiny.gguf"));
    }

    std::vector<TaskOutcome> run(const std::vector<TaskRequest>& requests, std::size_t batch,
                                 int threads) const {
        const auto session = model_->create_session({.threads = threads, .max_batch = batch});
        auto& batched = dynamic_cast<IBatchedOfflineVoiceTaskSession&>(*session);
        std::vector<TaskOutcome> outcomes;
        for (std::size_t first = 0; first < requests.size(); first += batch) {
            const std::size_t count = std::min(batch, requests.size() - first);
            for (auto& outcome : batched.run_batch(std::span(requests).subspan(first, count))) {
                outcomes.push_back(std::move(outcome));
            }
        }
        return outcomes;
    }

    std::shared_ptr<const ILoadedModel> model_;
};

TEST_F(MoonshineTiny, HearsTheWordsOfTheFixtures) {
    std::vector<TaskRequest> requests;
    std::size_t words = 0;
    std::size_t errors = 0;
    const std::vector<Clip> all = clips(model_->info().max_segment_seconds);
    for (const Clip& clip : all) requests.push_back(request_for(clip.samples));
    const auto outcomes = run(requests, requests.size(), 1);
    for (std::size_t i = 0; i < all.size(); ++i) {
        const auto& result = std::get<TaskResult>(outcomes[i]);
        EXPECT_FALSE(result.truncated) << result.text;
        words += words_of(all[i].words).size();
        errors += word_errors(words_of(all[i].words), words_of(result.text));
    }
    EXPECT_GT(words, 80U);
    EXPECT_LE(errors * 20, words) << errors << " of " << words << " words";
}

TEST_F(MoonshineTiny, SpeechInABatchEqualsSpeechAloneWhateverTheThreads) {
    std::vector<TaskRequest> requests;
    std::vector<float> joined;
    for (const Clip& clip : clips(model_->info().max_segment_seconds)) {
        requests.push_back(request_for(clip.samples));
        joined.insert(joined.end(), clip.samples.begin(), clip.samples.end());
    }
    joined.resize(19 * kSampleRate);  // beyond 512 frames
    requests.push_back(request_for(joined));
    requests.push_back(request_for({joined.begin(), joined.begin() + 5000}));
    const auto expected = run(requests, 1, 1);
    for (const int threads : {1, 2}) {
        const auto found = run(requests, requests.size(), threads);
        for (std::size_t i = 0; i < requests.size(); ++i) {
            EXPECT_EQ(std::get<TaskResult>(found[i]).tokens,
                      std::get<TaskResult>(expected[i]).tokens)
                << i;
            EXPECT_EQ(std::get<TaskResult>(found[i]).text, std::get<TaskResult>(expected[i]).text);
        }
    }
}

std::vector<float> reading(const std::string& name) {
    const auto input = audio::open_file(speech_folder() / name);
    input->decode_until(std::numeric_limits<std::int64_t>::max(), {});
    return AudioSegment{input->store(), 0, input->store()->end()}.copy();
}

/// The end of one reading from `start`, a second of silence, and `count` samples of another one.
std::vector<float> joined(const std::vector<float>& one, std::ptrdiff_t start,
                          const std::vector<float>& other, std::ptrdiff_t count) {
    std::vector<float> samples(one.begin() + start, one.end());
    samples.resize(samples.size() + kSampleRate);
    samples.insert(samples.end(), other.begin(), other.begin() + count);
    return samples;
}

TEST_F(MoonshineTiny, AbruptCutsThatItLoopsOnOrFindsEmptyAreHeardBetweenSilences) {
    std::vector<float> led_in(14849, 0.0F);
    for (const float sample : reading("sense-0880.flac")) led_in.push_back(sample);
    const std::vector<TaskRequest> requests{
        request_for(joined(reading("sense-0920.flac"), 29006, reading("sense-0930.flac"), 39294)),
        request_for(joined(led_in, 0, reading("sense-0890.flac"), 36448)),
        request_for(reading("sense-0930.flac")),
    };
    const auto alone = run(requests, 1, 1);
    const auto together = run(requests, requests.size(), 2);
    const std::vector<std::string> words{"respectable", "cold"};
    for (std::size_t i = 0; i < requests.size(); ++i) {
        const auto& result = std::get<TaskResult>(alone[i]);
        EXPECT_FALSE(result.truncated) << result.text;
        EXPECT_FALSE(ends_in_loop(result.tokens)) << result.text;
        EXPECT_EQ(result.tokens, std::get<TaskResult>(together[i]).tokens) << i;
        if (i < words.size())
            EXPECT_NE(result.text.find(words[i]), std::string::npos) << result.text;
    }
}

TEST_F(MoonshineTiny, SilenceHasNoWords) {
    const auto outcomes = run(
        {request_for(std::vector<float>(3 * kSampleRate)), request_for(std::vector<float>(500))}, 2,
        1);
    for (const TaskOutcome& outcome : outcomes) {
        EXPECT_LE(words_of(std::get<TaskResult>(outcome).text).size(), 2U);
    }
}

}  // namespace
}  // namespace wavepool::moonshine
