#include "framework/json.h"

#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

namespace wavepool {
namespace {

/// The byte at which the text is refused; 0 when it is not.
std::size_t refused_at(std::string_view text) {
    try {
        (void)parse_json(text);
    } catch (const JsonError& error) {
        EXPECT_EQ(error.code(), ErrorCode::kModelFileInvalid);
        EXPECT_NE(std::string(error.what()).find("byte " + std::to_string(error.byte())),
                  std::string::npos)
            << error.what();
        return error.byte();
    }
    return 0;
}

TEST(Json, ReadsEveryKindOfValue) {
    const auto json = parse_json(
        R"( {"a": [1, -2, 2.5e1, true, false, null], "b": {"a": "\u20ac \ud83c\udfb5 \n \"€"}} )");
    EXPECT_EQ(json["a"].size(), 6U);
    EXPECT_EQ(json["a"][1], -2);
    EXPECT_EQ(json["a"][2], 25.0);
    EXPECT_TRUE(json["a"][5].is_null());
    EXPECT_EQ(json["b"]["a"], "€ 🎵 \n \"€");
    EXPECT_EQ(parse_json("18446744073709551615").get<std::uint64_t>(), UINT64_MAX);
}

TEST(Json, TellsTheByteOfWhatIsWrong) {
    EXPECT_EQ(refused_at(R"({"a" 1})"), 6U);
    EXPECT_EQ(refused_at(R"({"a": 1}x)"), 9U) << "junk behind the value";
    EXPECT_EQ(refused_at("{} {}"), 4U);
    EXPECT_EQ(refused_at(std::string_view("{}\0{}", 5)), 3U) << "a zero byte is no end";
    EXPECT_EQ(refused_at(R"({"a": 1, "b": {"a": 2}, "a": 3})"), 27U) << "a key twice";
    EXPECT_EQ(refused_at(R"({"a": 1, "\u0061": 2})"), 17U) << "the same key, written differently";
    EXPECT_EQ(refused_at("[1, 1e999]"), 10U) << "beyond a double";
}

TEST(Json, RefusesWhatOtherParsersLetPass) {
    for (const char* text : {"",
                             " ",
                             "[1,]",
                             "{\"a\":1,}",
                             "[01]",
                             "[+1]",
                             "[.5]",
                             "[1.]",
                             "NaN",
                             "[Infinity]",
                             "'a'",
                             "{a: 1}",
                             "// comment\n1",
                             "/* c */ 1",
                             "\"\t\"",
                             "\"\\x41\"",
                             "\"\\ud800\"",
                             "\"\\udfb5\\ud83c\"",
                             "[",
                             "{\"a\":",
                             "\"open",
                             "tru"}) {
        EXPECT_NE(refused_at(text), 0U) << text;
    }
    for (const char* text :
         {"\"\x80\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"", "\"\xf5\x80\x80\x80\"", "\"\xe2\x82\""}) {
        EXPECT_NE(refused_at(text), 0U) << "no UTF-8";
    }
}

TEST(Json, DepthIsLimitedSoThatNestingCostsNothing) {
    const auto nested = [](std::size_t depth) {
        return std::string(depth, '[') + std::string(depth, ']');
    };
    EXPECT_EQ(refused_at(nested(kMaxJsonDepth)), 0U);
    EXPECT_EQ(refused_at(nested(kMaxJsonDepth + 1)), std::size_t{kMaxJsonDepth} + 1);
    EXPECT_NE(refused_at(std::string(1 << 20, '[')), 0U);
    EXPECT_NE(refused_at(std::string(1 << 20, '{')), 0U);
}

// J1
TEST(Json, ThreadsParseAtOnceAndEachGetsItsOwnContentsAndErrors) {
    constexpr int kThreads = 8;
    constexpr int kRounds = 200;
    std::atomic<int> right = 0;
    {
        std::vector<std::jthread> threads;
        for (int thread = 0; thread < kThreads; ++thread) {
            threads.emplace_back([&right, thread] {
                const std::string padding(static_cast<std::size_t>(thread), ' ');
                for (int round = 0; round < kRounds; ++round) {
                    const int number = thread * kRounds + round;
                    const auto json = parse_json(padding + "{\"n\": " + std::to_string(number) +
                                                 ", \"list\": [" + std::to_string(round) + "]}");
                    const auto again = parse_json(json.dump());
                    const std::size_t byte = refused_at(padding + "[" + padding + "!]");
                    right += json["n"] == number && again == json && again["list"][0] == round &&
                             byte == 2 * padding.size() + 2;
                }
            });
        }
    }
    EXPECT_EQ(right, kThreads * kRounds);
}

}  // namespace
}  // namespace wavepool
