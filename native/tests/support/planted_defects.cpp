#include "tests/support/planted_defects.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/faults.h"

namespace wavepool::fake {
namespace {

constexpr std::array<std::string_view, 6> kNames{"neighbor", "cold-clone",   "once",
                                                 "growth",   "reload-clone", "crash"};
constexpr std::size_t kGrowthBytes = std::size_t{1} << 20;

/// The state that the defects share among the sessions of the process.
struct Process {
    std::mutex mutex;
    std::size_t living = 0;
    std::size_t primaries = 0;
    std::size_t clone_results = 0;
    const PlantedDefects* latest_session = nullptr;
    std::string latest_text;
    std::vector<std::vector<char>> kept;
};

Process& process() {
    static Process process;
    return process;
}

bool joins_others() {
    const std::scoped_lock lock(process().mutex);
    const bool clone = process().living > 0;
    process().living += 1;
    if (!clone) process().primaries += 1;
    return clone;
}

bool follows_others() {
    const std::scoped_lock lock(process().mutex);
    return process().primaries > 1;
}

}  // namespace

bool is_planted_defect(std::string_view name) {
    return std::ranges::find(kNames, name) != kNames.end();
}

PlantedDefects::PlantedDefects() : clone_(joins_others()), reloaded_(follows_others()) {}

PlantedDefects::~PlantedDefects() {
    const std::scoped_lock lock(process().mutex);
    process().living -= 1;
    if (process().latest_session == this) process().latest_session = nullptr;
}

void PlantedDefects::apply(TaskResult& result) {
    const std::scoped_lock lock(process().mutex);
    Process& shared = process();
    const std::string own = result.text;
    results_ += 1;
    if (clone_) shared.clone_results += 1;
    const bool others = shared.latest_session != nullptr && shared.latest_session != this;
    if (others && fault_armed("neighbor")) result.text += " " + shared.latest_text;
    if (clone_ && results_ == 1 && fault_armed("cold-clone")) result.text += " cold";
    if (clone_ && shared.clone_results == 10 && fault_armed("once")) {
        result.text += " wrong";
    }
    if (clone_ && reloaded_ && fault_armed("reload-clone")) result.text += " reloaded";
    if (clone_ && shared.clone_results == 12 && fault_armed("crash")) std::abort();
    if (fault_armed("growth")) shared.kept.emplace_back(kGrowthBytes, '\1');
    shared.latest_session = this;
    shared.latest_text = own;
}

}  // namespace wavepool::fake
