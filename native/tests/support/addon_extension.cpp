#include "binding/test_extension.h"
#include "tests/support/fake_family.h"
#include "tests/support/faults.h"

namespace wavepool::binding {

std::span<const Family> test_families() { return fake::families(); }

void set_fault(std::string_view name, bool armed) { fake::set_fault(name, armed); }

void clear_faults() { fake::clear_faults(); }

LiveObjects live_objects() {
    const auto [weights, sessions] = fake::live_objects();
    return {weights, sessions};
}

}  // namespace wavepool::binding
