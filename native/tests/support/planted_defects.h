#pragma once

#include <cstddef>
#include <string_view>

#include "framework/sessions/session.h"

namespace wavepool::fake {

/// What slots can do wrong and only a validation of many runs finds. Armed like the faults of
/// faults.h, for every fake session of the process:
///
///   neighbor        a result shows the latest result of another session
///   cold-clone      the first result of a clone differs from that of a primary
///   once            the tenth result of the clones is wrong, and no other
///   growth          every result keeps 1 MiB for good
///   reload-clone    a clone is wrong if another model was loaded and freed before it
///   crash           the twelfth result of a clone ends the process with abort()
[[nodiscard]] bool is_planted_defect(std::string_view name);

/// The defects of one session. A session that is made while others live is a clone.
class PlantedDefects {
  public:
    PlantedDefects();
    ~PlantedDefects();
    PlantedDefects(const PlantedDefects&) = delete;
    PlantedDefects& operator=(const PlantedDefects&) = delete;

    /// Called once per result, which is right otherwise.
    void apply(TaskResult& result);

  private:
    const bool clone_;
    const bool reloaded_;
    std::size_t results_ = 0;
};

}  // namespace wavepool::fake
