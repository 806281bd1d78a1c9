#pragma once

#include <span>

#include "framework/models/model.h"

namespace wavepool {

/// Every family this build can load. Adding one is adding a row in families.cpp.
[[nodiscard]] std::span<const Family> families() noexcept;

}  // namespace wavepool
