#include "tests/support/faults.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "framework/error.h"
#include "tests/support/planted_defects.h"

namespace wavepool::fake {
namespace {

using std::chrono_literals::operator""ms;

constexpr auto kNames = std::to_array<std::string_view>(
    {"load",       "clone",      "second-clone", "null-clone",   "clone-family",
     "clone-task", "clone-mode", "null-primary", "prepare",      "run",
     "abort",      "hang",       "gate",         "leak",         "first-run",
     "lose-item",  "load-gate",  "clone-gate",   "prepare-gate", "destroy-gate"});

struct Table {
    std::mutex mutex;
    std::set<std::string, std::less<>> armed;
};

Table& table() {
    static Table table;
    return table;
}

/// Cancellation is a flag to poll, as real sessions do between decode steps.
template <typename Condition>
void poll_until(const Condition& condition) {
    while (!condition()) std::this_thread::sleep_for(1ms);
}

}  // namespace

void set_fault(std::string_view name, bool armed) {
    if (std::ranges::find(kNames, name) == kNames.end() && !is_planted_defect(name)) {
        throw Error(ErrorCode::kInvalidRequest, "no fault is called " + std::string(name));
    }
    const std::scoped_lock lock(table().mutex);
    if (armed) {
        table().armed.emplace(name);
    } else if (const auto found = table().armed.find(name); found != table().armed.end()) {
        table().armed.erase(found);
    }
}

bool fault_armed(std::string_view name) {
    const std::scoped_lock lock(table().mutex);
    return table().armed.contains(name);
}

void clear_faults() {
    const std::scoped_lock lock(table().mutex);
    table().armed.clear();
}

void hang_until(const CancelToken& cancel) {
    poll_until([&] { return cancel.cancelled(); });
}

void wait_at_gate(std::string_view gate, const CancelToken& cancel) {
    poll_until([&] { return cancel.cancelled() || !fault_armed(gate); });
}

void wait_at_gate(std::string_view gate) {
    poll_until([&] { return !fault_armed(gate); });
}

}  // namespace wavepool::fake
