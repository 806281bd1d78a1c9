#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "framework/error.h"

namespace wavepool::testing {

/// The name of the code that `body` throws as an Error; "nothing" when it returns.
template <typename Body>
std::string code_thrown_by(Body&& body) {
    try {
        body();
    } catch (const Error& error) {
        return std::string(error_code_name(error.code()));
    }
    return "nothing";
}

}  // namespace wavepool::testing
