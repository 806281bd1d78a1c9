#pragma once

#include <span>
#include <string_view>

#include "framework/models/model.h"

namespace wavepool::binding {

/// What the test addon has beyond the published one, implemented with the tests. Compiled only with
/// WAVEPOOL_TEST_ADDON.
[[nodiscard]] std::span<const Family> test_families();

/// Arms or disarms a fault for the whole process. Throws Error{kInvalidRequest} for an unknown
/// name.
void set_fault(std::string_view name, bool armed);
void clear_faults();

/// What of the test families exists in this process.
struct LiveObjects {
    int weights = 0;
    int sessions = 0;
};
[[nodiscard]] LiveObjects live_objects();

}  // namespace wavepool::binding
