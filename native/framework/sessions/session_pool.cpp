#include "framework/sessions/session_pool.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace wavepool {
namespace {

template <typename Interface>
bool implements(IVoiceTaskSession& session) {
    return dynamic_cast<Interface*>(&session) != nullptr;
}

void require_mode_interface(IVoiceTaskSession& primary) {
    const bool fits = primary.run_mode() == RunMode::kOffline
                          ? implements<IOfflineVoiceTaskSession>(primary)
                          : implements<IStreamingVoiceTaskSession>(primary);
    if (!fits) {
        throw Error(ErrorCode::kInvalidRequest,
                    std::string(primary.family()) + ": the session lacks the interface of its " +
                        std::string(run_mode_name(primary.run_mode())) + " mode");
    }
}

void require_same_kind(IVoiceTaskSession& primary, IVoiceTaskSession* clone) {
    const std::string family(primary.family());
    if (!clone) {
        throw Error(ErrorCode::kModelLoadFailed, family + ": a parallel session is missing");
    }
    if (clone->family() != primary.family() || clone->task_kind() != primary.task_kind() ||
        clone->run_mode() != primary.run_mode()) {
        throw Error(ErrorCode::kModelLoadFailed,
                    family + ": a parallel session is of another family, task or mode");
    }
    const bool same_interfaces = implements<IOfflineVoiceTaskSession>(primary) ==
                                     implements<IOfflineVoiceTaskSession>(*clone) &&
                                 implements<IBatchedOfflineVoiceTaskSession>(primary) ==
                                     implements<IBatchedOfflineVoiceTaskSession>(*clone) &&
                                 implements<IStreamingVoiceTaskSession>(primary) ==
                                     implements<IStreamingVoiceTaskSession>(*clone);
    if (!same_interfaces) {
        throw Error(ErrorCode::kModelLoadFailed,
                    family + ": a parallel session implements other interfaces");
    }
}

}  // namespace

VoiceTaskSessionPool::VoiceTaskSessionPool(std::unique_ptr<IVoiceTaskSession> primary,
                                           std::size_t count, FallbackFactory fallback_factory,
                                           std::optional<std::size_t> audited_capacity)
    : primary_(std::move(primary)) {
    if (!primary_) throw Error(ErrorCode::kInvalidRequest, "a pool needs a primary session");
    if (count < 1 || count > kMaxParallelSessions) {
        throw Error(ErrorCode::kInvalidRequest, "a pool has 1 to " +
                                                    std::to_string(kMaxParallelSessions) +
                                                    " slots, not " + std::to_string(count));
    }
    require_mode_interface(*primary_);

    const auto* factory = get<IParallelVoiceTaskSessionFactory>(0);
    if (factory) {
        capacity_ = std::min(factory->parallel_session_capacity(), kMaxParallelSessions);
    } else if (fallback_factory && audited_capacity) {
        capacity_ = std::min(*audited_capacity, kMaxParallelSessions);
    }
    if (capacity_ < 1 || count > capacity_) {
        throw Error(ErrorCode::kSlotsUnsupported, std::string(primary_->family()) + " supports " +
                                                      std::to_string(capacity_) +
                                                      " slots here, not " + std::to_string(count));
    }

    clones_.reserve(count - 1);
    while (size() < count) {
        std::unique_ptr<IVoiceTaskSession> clone =
            factory ? factory->create_parallel_session() : fallback_factory();
        require_same_kind(*primary_, clone.get());
        clones_.push_back(std::move(clone));
    }
}

IVoiceTaskSession& VoiceTaskSessionPool::at(std::size_t slot) {
    if (slot == 0) return *primary_;
    if (slot >= size()) throw std::out_of_range("no slot " + std::to_string(slot));
    return *clones_[slot - 1];
}

}  // namespace wavepool
