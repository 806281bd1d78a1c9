#include "framework/sessions/batch_run.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace wavepool {
namespace {

using Report = std::function<void(std::size_t index, TaskOutcome outcome)>;

/// Why a request cannot run at all, if so.
std::optional<Error> refusal(IVoiceTaskSession& session, const TaskRequest& request) {
    if (request.cancel.cancelled()) return Error(ErrorCode::kCancelled, "before it ran");
    try {
        session.prepare(request);
        return std::nullopt;
    } catch (...) {
        return error_from_current_exception();
    }
}

void run_one_by_one(IOfflineVoiceTaskSession& session, std::span<const TaskRequest> requests,
                    std::span<const std::size_t> accepted, const Report& report) {
    for (const std::size_t index : accepted) {
        const TaskRequest& request = requests[index];
        std::optional<TaskOutcome> outcome;
        try {
            if (request.cancel.cancelled()) throw Error(ErrorCode::kCancelled, "before it ran");
            outcome = session.run(request);
        } catch (...) {
            outcome = error_from_current_exception();
        }
        report(index, *std::move(outcome));
    }
}

[[noreturn]] void broken(const IVoiceTaskSession& session, const std::string& what) {
    throw Error(ErrorCode::kInternal, std::string(session.family()) + " " + what);
}

void run_native_batch(IVoiceTaskSession& session, IBatchedOfflineVoiceTaskSession& batched,
                      std::span<const TaskRequest> requests, std::span<const std::size_t> accepted,
                      const Report& report) {
    std::vector<TaskRequest> members;
    members.reserve(accepted.size());
    for (const std::size_t index : accepted) members.push_back(requests[index]);

    std::vector<bool> reported(members.size(), false);
    const auto on_result = [&](std::size_t member, const TaskOutcome& outcome) {
        if (member >= members.size()) broken(session, "reported an item that is not in its batch");
        if (reported[member]) broken(session, "reported an item twice");
        reported[member] = true;
        report(accepted[member], outcome);
    };
    std::vector<TaskOutcome> outcomes = batched.run_batch(members, on_result);
    if (outcomes.size() != members.size()) {
        broken(session, "returned " + std::to_string(outcomes.size()) + " outcomes for " +
                            std::to_string(members.size()) + " items");
    }
    for (std::size_t member = 0; member < members.size(); ++member) {
        if (!reported[member]) report(accepted[member], std::move(outcomes[member]));
    }
}

}  // namespace

void run_items(IVoiceTaskSession& session, std::span<const TaskRequest> requests,
               const Report& report) {
    auto* offline = dynamic_cast<IOfflineVoiceTaskSession*>(&session);
    auto* batched = dynamic_cast<IBatchedOfflineVoiceTaskSession*>(&session);
    if (!offline) {
        throw Error(ErrorCode::kInvalidRequest,
                    std::string(session.family()) + ": this session does not run whole segments");
    }
    if (batched && requests.size() > batched->max_batch()) {
        throw Error(ErrorCode::kInvalidRequest, std::to_string(requests.size()) +
                                                    " items in a batch of at most " +
                                                    std::to_string(batched->max_batch()));
    }
    std::vector<std::size_t> accepted;
    for (std::size_t index = 0; index < requests.size(); ++index) {
        if (std::optional<Error> error = refusal(session, requests[index])) {
            report(index, *std::move(error));
        } else {
            accepted.push_back(index);
        }
    }
    if (accepted.empty()) return;
    if (batched) {
        run_native_batch(session, *batched, requests, accepted, report);
    } else {
        run_one_by_one(*offline, requests, accepted, report);
    }
}

}  // namespace wavepool
