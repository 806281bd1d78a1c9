#include "framework/error.h"

#include <gtest/gtest.h>

#include <fstream>
#include <new>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>

namespace wavepool {
namespace {

std::set<std::string> codes_of_the_table() {
    std::ifstream file(WAVEPOOL_ERROR_TABLE);
    std::stringstream text;
    text << file.rdbuf();
    const std::string source = text.str();
    std::set<std::string> codes;
    const std::regex row(R"(\n  ([A-Z_]+): row\()");
    for (std::sregex_iterator it(source.begin(), source.end(), row), end; it != end; ++it) {
        codes.insert((*it)[1]);
    }
    return codes;
}

TEST(Error, EveryCodeHasTheNameOfARowInTheErrorTable) {
    const auto table = codes_of_the_table();
    ASSERT_GT(table.size(), 20U);
    std::set<std::string> names;
    for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code) {
        const auto name = std::string(error_code_name(static_cast<ErrorCode>(code)));
        EXPECT_TRUE(table.contains(name)) << name;
        EXPECT_TRUE(names.insert(name).second) << name << " names two codes";
    }
}

template <typename Thrown>
Error caught(const Thrown& thrown) {
    try {
        throw thrown;
    } catch (...) {
        return error_from_current_exception();
    }
}

TEST(Error, WhateverIsThrownBecomesAnErrorWithACode) {
    const Error busy = caught(Error(ErrorCode::kSlotBusy, "detail"));
    EXPECT_EQ(busy.code(), ErrorCode::kSlotBusy);
    EXPECT_STREQ(busy.what(), "detail");
    EXPECT_EQ(caught(std::bad_alloc()).code(), ErrorCode::kInsufficientMemory);
    const Error other = caught(std::runtime_error("why"));
    EXPECT_EQ(other.code(), ErrorCode::kInternal);
    EXPECT_STREQ(other.what(), "why");
    EXPECT_EQ(caught(42).code(), ErrorCode::kInternal);
}

}  // namespace
}  // namespace wavepool
