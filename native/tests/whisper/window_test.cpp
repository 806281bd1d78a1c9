// The rules by which a window is decoded, on scores made here.
#include "models/whisper/decoding/window.h"

#include <gtest/gtest.h>

namespace wavepool::whisper {
namespace {

constexpr std::int32_t kEnd = 10;
constexpr std::int32_t kNoSpeech = 12;
constexpr std::int32_t kFirstTime = 20;
constexpr std::size_t kTokens = kFirstTime + 1501;

class WhisperWindow : public ::testing::Test {
  protected:
    Window window(bool suppress_blank = false, int begin = 0) const {
        return Window(
            {.tokens = tokens_, .begin = begin, .end = 800, .suppress_blank = suppress_blank});
    }
    static std::vector<float> scores(std::initializer_list<std::pair<std::int32_t, float>> set) {
        std::vector<float> all(kTokens, -20.0F);
        for (const auto& [token, score] : set) all[static_cast<std::size_t>(token)] = score;
        return all;
    }
    static std::int32_t next(Window& window,
                             std::initializer_list<std::pair<std::int32_t, float>> set) {
        std::vector<float> all = scores(set);
        window.choose(all);
        return window.last_token();
    }

    library::SpecialTokens tokens_{.end = kEnd,
                                   .start = 11,
                                   .no_speech = kNoSpeech,
                                   .first_time = kFirstTime,
                                   .space = 9,
                                   .suppressed = {8, 11, 12, 13, 14, 15, 16, 17, 18, 19}};
};

TEST_F(WhisperWindow, BeginsWithNeitherTheEndNorASpaceNorALateTime) {
    Window first = window();
    EXPECT_EQ(next(first, {{kEnd, 9}, {9, 8}, {8, 7}, {kFirstTime + 51, 6}, {kFirstTime + 50, 5}}),
              kFirstTime + 50);
}

TEST_F(WhisperWindow, ChoosesATimeWhenAllTogetherAreLikelierThanAnyWord) {
    Window first = window();
    EXPECT_EQ(next(first, {{1, 1.0F}, {kFirstTime, 0.5F}, {kFirstTime + 1, 0.6F}}), kFirstTime + 1);
    Window second = window();
    EXPECT_EQ(next(second, {{1, 3.0F}, {kFirstTime, 0.5F}, {kFirstTime + 1, 0.6F}}), 1);
}

TEST_F(WhisperWindow, TimesComeInPairsAndAscend) {
    Window w = window();
    EXPECT_EQ(next(w, {{kFirstTime, 5}}), kFirstTime);
    EXPECT_EQ(next(w, {{kFirstTime + 3, 5}, {1, 1}}), 1);
    EXPECT_EQ(next(w, {{kFirstTime + 100, 5}}), kFirstTime + 100);
    EXPECT_EQ(next(w, {{2, 5}, {kFirstTime + 90, 4}, {kFirstTime + 100, 3}}), kFirstTime + 100);
    EXPECT_EQ(next(w, {{2, 5}}), 2);
    EXPECT_EQ(w.state(), Window::State::kDecoding);
    EXPECT_EQ(next(w, {{kEnd, 5}}), kEnd);
    EXPECT_EQ(w.state(), Window::State::kCompleted);
    // What follows the last time is the next window's.
    EXPECT_EQ(w.tokens().size(), 4U);
    EXPECT_EQ(w.advance(), 200);
}

TEST_F(WhisperWindow, ASingleTimeAtItsEndEndsTheClip) {
    Window w = window();
    for (const std::int32_t token : {kFirstTime, 1, kFirstTime + 100}) next(w, {{token, 5}});
    EXPECT_EQ(next(w, {{kEnd, 5}}), kEnd);
    EXPECT_EQ(w.advance(), 800);
}

TEST_F(WhisperWindow, EndsWhereTheClipDoes) {
    Window w = window();
    for (const std::int32_t token : {kFirstTime, 1, kFirstTime + 396}) next(w, {{token, 5}});
    EXPECT_EQ(w.state(), Window::State::kCompleted);
    EXPECT_FALSE(w.doubtful());
}

TEST_F(WhisperWindow, WithoutATimeTheEndIsNoEndUnlessTheClipIsShort) {
    Window w = window();
    next(w, {{1, 5}});
    next(w, {{kEnd, 5}});
    EXPECT_EQ(w.state(), Window::State::kCompleted);
    Window early({.tokens = tokens_, .begin = 0, .end = 4000});
    next(early, {{1, 5}});
    next(early, {{kEnd, 5}});
    EXPECT_EQ(early.state(), Window::State::kFailed);
    EXPECT_TRUE(early.doubtful());
}

TEST_F(WhisperWindow, KnownSpeechHasTextBeforeItsEndAndIsNeverSilence) {
    for (const bool known : {false, true}) {
        Window w = window(known);
        w.read_no_speech(scores({{kNoSpeech, 30}}));
        EXPECT_GT(w.no_speech_probability(), 0.99F);
        next(w, {{kFirstTime, 5}});
        EXPECT_EQ(next(w, {{kEnd, 5}, {1, -15}}), known ? 1 : kEnd);
        if (known) next(w, {{kEnd, 5}});
        EXPECT_EQ(w.silent(), !known && w.average_log_probability() < -1);
    }
}

TEST_F(WhisperWindow, ALoopIsStuck) {
    Window w = window();
    next(w, {{kFirstTime, 5}});
    for (int i = 0; i < 3; ++i) next(w, {{1, 5}});
    EXPECT_EQ(w.state(), Window::State::kDecoding);
    next(w, {{1, 5}});
    EXPECT_EQ(w.state(), Window::State::kStuck);
}

}  // namespace
}  // namespace wavepool::whisper
