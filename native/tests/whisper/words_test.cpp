#include <gtest/gtest.h>

#include <numeric>

#include "framework/utf8.h"
#include "models/whisper/checkpoint/vocabulary.h"
#include "models/whisper/decoding/guards.h"
#include "models/whisper/request/alignment.h"
#include "models/whisper/request/words.h"

namespace wavepool::whisper {
namespace {

using Texts = std::vector<std::string>;

std::vector<TimedWord> words(const std::vector<std::string_view>& tokens, double end = 10) {
    std::vector<TimedToken> timed;
    for (const std::string_view token : tokens) {
        timed.push_back({token, static_cast<double>(timed.size()), 0.5F});
    }
    return words_of(timed, 0, end);
}

Texts texts(const std::vector<std::string_view>& tokens) {
    Texts found;
    for (const TimedWord& word : words(tokens)) found.push_back(word.text);
    return found;
}

TEST(WhisperWords, BeginWithASpaceAndKeepTheirPunctuation) {
    EXPECT_EQ(texts({" Hel", "lo", ",", " dear", " (", "old", ")", " world", "!"}),
              (Texts{"Hello,", "dear", "(old)", "world!"}));
    EXPECT_EQ(texts({" it", "'s", " co", "-", "op", " ."}), (Texts{"it's", "co-op."}));
}

TEST(WhisperWords, NeverSplitACharacter) {
    EXPECT_EQ(texts({" caf", "\xC3", "\xA9", " na", "\xC3\xAF", "ve"}),
              (Texts{"caf\u00e9", "na\u00efve"}));
    EXPECT_EQ(texts({" \xF0\x9F", "\x98", "\x80", " ok"}), (Texts{"\U0001F600", "ok"}));
    EXPECT_EQ(texts({" bad", "\xC3"}), (Texts{"bad\uFFFD"}));
}

TEST(WhisperWords, AreCharactersWhereNobodyWritesSpaces) {
    EXPECT_EQ(texts({"\u4f60\u597d", "\uff0c", "\u4e16", "\u754c", "\u3002"}),
              (Texts{"\u4f60\u597d\uff0c", "\u4e16", "\u754c\u3002"}));
}

TEST(WhisperWords, HaveAscendingTimesWithinTheirPiece) {
    const std::vector<TimedToken> tokens{
        {" a", 5, 1}, {" b", 3, 1}, {" c", 7, 1}, {" d", 99, 1}, {" e", -1, 1}};
    const auto found = words_of(tokens, 4, 8);
    ASSERT_EQ(found.size(), 5U);
    double time = 4;
    for (const TimedWord& word : found) {
        EXPECT_GE(word.start, time);
        EXPECT_GE(word.end, word.start);
        EXPECT_LE(word.end, 8);
        time = word.start;
    }
}

TEST(WhisperWords, LeaveSilenceOut) {
    const std::vector<TimedToken> tokens{
        {" one", 0, 1}, {" two", 0.3, 1}, {".", 0.5, 1}, {" three", 5, 1}, {" four", 5.3, 1}};
    const auto found = words_of(tokens, 0, 9);
    ASSERT_EQ(found.size(), 4U);
    EXPECT_LT(found[1].end, 2.5);
    EXPECT_LT(found[3].end, 8);
}

TEST(WhisperAlignment, FindsTheFrameInWhichEachTokenBegins) {
    constexpr std::size_t kTokens = 4;
    constexpr std::size_t kFrames = 60;
    std::vector<float> weights(2 * kTokens * kFrames, 0.01F);
    for (std::size_t head = 0; head < 2; ++head) {
        for (std::size_t frame = 0; frame < 40; ++frame) {
            weights[(head * kTokens + frame / 10) * kFrames + frame] = 0.5F;
        }
    }
    const auto frames =
        begin_frames({.weights = weights, .heads = 2, .tokens = kTokens, .frames = kFrames}, 1, 40);
    EXPECT_EQ(frames.size(), 3U);
    EXPECT_EQ(frames[0], 0U);
    EXPECT_NEAR(static_cast<double>(frames[1]), 20, 2);
    EXPECT_NEAR(static_cast<double>(frames[2]), 30, 2);
    EXPECT_EQ(
        begin_frames({.weights = weights, .heads = 2, .tokens = kTokens, .frames = kFrames}, 1, 1),
        (std::vector<std::size_t>{0, 0, 0}));
}

TEST(WhisperGuards, KnowALoopFromSpeech) {
    const auto loops = [](std::vector<std::int32_t> tokens) { return ends_in_loop(tokens); };
    EXPECT_TRUE(loops({9, 1, 2, 3, 1, 2, 3}));
    EXPECT_TRUE(loops({1, 2, 1, 2, 1, 2}));
    EXPECT_TRUE(loops({7, 7, 7, 7}));
    EXPECT_FALSE(loops({1, 2, 1, 2}));
    EXPECT_FALSE(loops({7, 7, 7}));
    EXPECT_FALSE(loops({1, 2, 3, 1, 2, 4}));
    EXPECT_FALSE(loops({}));
}

TEST(WhisperGuards, GiveTheEncoderTheSegmentAndSomeSilence) {
    EXPECT_EQ(audio_frames(1), 256);
    EXPECT_EQ(audio_frames(2 * 16000), 256);
    EXPECT_EQ(audio_frames(3 * 16000), 512);
    EXPECT_EQ(audio_frames(23 * 16000), 1280);
    EXPECT_EQ(audio_frames(24 * 16000), 1500);
    EXPECT_EQ(audio_frames(30 * 16000), 1500);
}

TEST(WhisperVocabulary, EncodesWordsAsTheirLongestPieces) {
    const Vocabulary vocabulary({" ", " he", "he", "llo", "l", "o", "'s", " hello", "9", "end"}, 9);
    EXPECT_EQ(vocabulary.encode("hello hello's 9"), (std::vector<std::int32_t>{2, 3, 7, 6, 0, 8}));
    EXPECT_EQ(vocabulary.encode("xhex"), (std::vector<std::int32_t>{2}));
    // A special token's name is text like any other.
    EXPECT_TRUE(vocabulary.encode("end").empty());
    EXPECT_TRUE(vocabulary.bytes(9).empty());
    EXPECT_TRUE(vocabulary.bytes(-1).empty());
}

TEST(Utf8, KeepsWhatIsWellFormed) {
    EXPECT_EQ(valid_utf8("a\xC3\xA9\xF0\x9F\x98\x80"), "a\u00e9\U0001F600");
    EXPECT_EQ(valid_utf8("a\xC3z\xED\xA0\x80" + std::string(1, '\0')), "a\uFFFDz\uFFFD");
    EXPECT_TRUE(ends_inside_character("a\xE4\xBD"));
    EXPECT_FALSE(ends_inside_character("a\xE4\xBD\xA0"));
    EXPECT_FALSE(ends_inside_character(""));
    EXPECT_EQ(trimmed(" \n a b\t"), "a b");
    EXPECT_EQ(code_point("\u4f60"), U'\u4f60');
}

}  // namespace
}  // namespace wavepool::whisper
