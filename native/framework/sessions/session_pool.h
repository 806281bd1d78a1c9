#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "framework/sessions/session.h"

namespace wavepool {

/// Upper bound on the sessions of one pool, whatever an adapter advertises.
inline constexpr std::size_t kMaxParallelSessions = 16;

/// Owns a primary session and its clones and gives access to them by slot index (primary = slot 0).
/// Does not schedule: the owner leases each slot exclusively, for a whole batch or stream, and has
/// drained all leases before it destroys the pool. Not copyable, not movable.
class VoiceTaskSessionPool {
  public:
    using FallbackFactory = std::function<std::unique_ptr<IVoiceTaskSession>()>;

    /// Validates first, then creates count - 1 clones one after another. Throws Error and leaves
    /// nothing behind: kInvalidRequest for a null primary, a count outside 1…16 or a primary
    /// without the interface of its run mode; kSlotsUnsupported when count exceeds the capacity (no
    /// clone has been created then); kModelLoadFailed for a null clone or one of another family,
    /// task, mode or interface set. What a factory throws passes through.
    ///
    /// Capacity is what the primary's IParallelVoiceTaskSessionFactory says (final, also when it
    /// refuses), else `audited_capacity` when a fallback factory is given too, else 1; never more
    /// than kMaxParallelSessions.
    VoiceTaskSessionPool(std::unique_ptr<IVoiceTaskSession> primary, std::size_t count,
                         FallbackFactory fallback_factory = {},
                         std::optional<std::size_t> audited_capacity = std::nullopt);

    VoiceTaskSessionPool(const VoiceTaskSessionPool&) = delete;
    VoiceTaskSessionPool& operator=(const VoiceTaskSessionPool&) = delete;

    [[nodiscard]] std::size_t size() const noexcept { return 1 + clones_.size(); }
    [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

    /// Throws std::out_of_range beyond the last slot.
    [[nodiscard]] IVoiceTaskSession& at(std::size_t slot);

    /// The session's face as Interface, or null where it does not implement it.
    template <typename Interface>
    [[nodiscard]] Interface* get(std::size_t slot) {
        return dynamic_cast<Interface*>(&at(slot));
    }

  private:
    // Destruction order: clones die before the primary that made them.
    std::unique_ptr<IVoiceTaskSession> primary_;
    std::size_t capacity_ = 1;
    std::vector<std::unique_ptr<IVoiceTaskSession>> clones_;
};

}  // namespace wavepool
