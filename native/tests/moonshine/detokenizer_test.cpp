#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/moonshine/detokenizer.h"

namespace wavepool::moonshine {
namespace {

/// Ids 3 to 258 are the bytes, then words.
std::vector<std::string> vocabulary() {
    std::vector<std::string> pieces{"<unk>", "<s>", "</s>"};
    constexpr char kDigits[] = "0123456789ABCDEF";
    for (int byte = 0; byte < 256; ++byte) {
        pieces.push_back(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">");
    }
    for (const char* piece : {"▁Hello", ",", "▁wor", "ld", "▁", "", "<<ST_0>>", "▁a▁b"}) {
        pieces.emplace_back(piece);
    }
    return pieces;
}
constexpr std::int32_t kWords = 259;

std::string text(const std::vector<std::int32_t>& tokens) {
    static const Detokenizer detokenizer(vocabulary());
    return detokenizer.text(tokens);
}
std::int32_t byte(int value) { return 3 + value; }

TEST(MoonshineDetokenizer, JoinsPiecesWithSpacesAndTrims) {
    EXPECT_EQ(text({kWords, kWords + 1, kWords + 2, kWords + 3, kWords + 4}), "Hello, world");
    EXPECT_EQ(text({kWords + 7, kWords + 5}), "a b");
    EXPECT_EQ(text({}), "");
    EXPECT_EQ(text({kWords + 4, kWords + 4}), "");
}

TEST(MoonshineDetokenizer, LeavesOutMarksAndWhatIsNotInTheVocabulary) {
    EXPECT_EQ(text({1, kWords, kWords + 6, 0, 2, -5, 1 << 20, kWords + 1}), "Hello,");
}

TEST(MoonshineDetokenizer, BuildsCharactersFromBytes) {
    EXPECT_EQ(text({kWords, byte(0xC3), byte(0xA9)}), "Helloé");
    EXPECT_EQ(text({byte(0xF0), byte(0x9F), byte(0x98), byte(0x80)}), "😀");
}

TEST(MoonshineDetokenizer, NeverEmitsInvalidUtf8) {
    const std::string mark = "\xEF\xBF\xBD";
    EXPECT_EQ(text({byte(0xC3), kWords + 3}), mark + "ld");                   // cut short
    EXPECT_EQ(text({byte(0xE2), byte(0x82)}), mark);                          // cut at the end
    EXPECT_EQ(text({byte(0x80), kWords + 3}), mark + "ld");                   // no lead
    EXPECT_EQ(text({byte(0xC0), byte(0xAF)}), mark);                          // overlong
    EXPECT_EQ(text({byte(0xED), byte(0xA0), byte(0x80)}), mark);              // surrogate
    EXPECT_EQ(text({byte(0xF4), byte(0x90), byte(0x80), byte(0x80)}), mark);  // beyond U+10FFFF
    EXPECT_EQ(text({byte(0xFF), byte('a')}), mark + "a");
}

}  // namespace
}  // namespace wavepool::moonshine
