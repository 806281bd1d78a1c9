#pragma once

#include <span>
#include <string_view>

#include "framework/models/model.h"

namespace wavepool::binding {

/// The functions that only the test addon has. They are implemented with the tests and compiled
/// only with WAVEPOOL_TEST_ADDON.
[[nodiscard]] std::span<const Family> test_families();

/// Arms or disarms a fault for the whole process. Throws Error{kInvalidRequest} for an unknown
/// name.
void set_fault(std::string_view name, bool armed);
void clear_faults();

/// How many objects of the test families exist in this process.
struct LiveObjects {
    int weights = 0;
    int sessions = 0;
};
[[nodiscard]] LiveObjects live_objects();

}  // namespace wavepool::binding
