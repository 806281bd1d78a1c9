#include "models/silero_vad/session.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "framework/error.h"
#include "framework/models/offline_limits.h"
#include "framework/sessions/session_pool.h"

namespace wavepool::silero_vad {
namespace {

/// Windows of a round that a few members share: about 1.5 s of one input, under a millisecond.
constexpr std::size_t kRoundWindows = 48;

/// Far beyond any audio; keeps the network's sums finite.
constexpr float kLargestSample = 1e6F;

/// The row of a window that was encoded in an earlier round: its gates are in the memory.
constexpr std::size_t kRemembered = std::numeric_limits<std::size_t>::max();

[[noreturn]] void refuse(const std::string& reason) {
    throw Error(ErrorCode::kInvalidRequest, "silero-vad: " + reason);
}

bool all_usable(std::span<const float> samples) {
    // Without early exit, so that it vectorizes. The negated comparison also catches NaN.
    bool unusable = false;
    for (const float sample : samples) unusable |= !(std::abs(sample) <= kLargestSample);
    return !unusable;
}

/// Members still active in a step are a prefix: members come with the most windows first.
template <typename Member>
std::size_t active_members(std::span<const Member> members, std::size_t step) {
    const auto first_done =
        std::partition_point(members.begin(), members.end(),
                             [&](const Member& member) { return member.windows > step; });
    return static_cast<std::size_t>(first_done - members.begin());
}

void check_options(const SessionOptions& options) {
    if (options.mode != RunMode::kOffline) refuse("only offline sessions are supported");
    if (options.threads < 1 || options.threads > 64) refuse("threads must be 1 to 64");
    if (options.max_batch < 1 || options.max_batch > VadSession::kMaxBatch)
        refuse("max_batch must be 1 to " + std::to_string(VadSession::kMaxBatch));
}

std::size_t round_windows(const SessionOptions& options) {
    return std::max(kRoundWindows, options.max_batch);
}

}  // namespace

VadSession::VadSession(std::shared_ptr<const Weights> weights, const SessionOptions& options)
    : weights_(std::move(weights)), options_(options) {
    check_options(options);
    round_windows_ = round_windows(options);
    gates_.resize(round_windows_ * kGates);
    rows_.reserve(round_windows_);
    hidden_.resize(options.max_batch * kHidden);
    cell_.resize(options.max_batch * kHidden);
}

std::size_t VadSession::bytes(const SessionOptions& options) {
    check_options(options);
    const std::size_t floats = round_windows(options) * kGates + 2 * options.max_batch * kHidden;
    return sizeof(VadSession) + Encoder::bytes() + floats * sizeof(float) +
           round_windows(options) * sizeof(std::size_t) + options.max_batch * sizeof(Member);
}

std::string_view VadSession::family() const noexcept { return "silero-vad"; }

std::size_t VadSession::private_bytes() const noexcept {
    return sizeof(*this) + Encoder::bytes() +
           (gates_.capacity() + hidden_.capacity() + cell_.capacity()) * sizeof(float) +
           rows_.capacity() * sizeof(std::size_t) + options_.max_batch * sizeof(Member);
}

std::size_t VadSession::parallel_session_capacity() const noexcept { return kMaxParallelSessions; }

std::unique_ptr<IVoiceTaskSession> VadSession::create_parallel_session() const {
    return std::make_unique<VadSession>(weights_, options_);
}

void VadSession::prepare(const TaskRequest& request) { static_cast<void>(admit(request, 0)); }

VadSession::Member VadSession::admit(const TaskRequest& request, std::size_t index) {
    const auto& [store, start, count] = request.audio;
    if (!request.options.empty())
        refuse("unknown option \"" + request.options.begin()->first + "\"");
    if (store == nullptr) refuse("a request needs audio");
    if (count == 0) throw Error(ErrorCode::kInputEmpty, "silero-vad: the request has no samples");
    if (start < 0 || count < 0) refuse("the sample range is negative");
    if (start < store->begin() || start > store->end() || count > store->end() - start)
        refuse("the samples are not resident");

    auto* state = dynamic_cast<VadState*>(request.state.get());
    if (state == nullptr) refuse("a request needs a state that this model created");
    VadState::Claim claim(*state);
    if (state->ended) refuse("the state's input has ended with a part of a window");
    if (state->next_sample.value_or(start) != start) {
        refuse("the request starts at sample " + std::to_string(start) +
               ", but the state's input goes on at " + std::to_string(*state->next_sample));
    }
    constexpr auto kWindow = static_cast<std::int64_t>(kWindowSamples);
    const auto windows = static_cast<std::size_t>(count / kWindow + (count % kWindow != 0 ? 1 : 0));
    Member member{.index = index,
                  .request = &request,
                  .state = std::move(claim),
                  .memory = state->memory,
                  .start = start,
                  .windows = windows};
    member.result.probabilities.reserve(windows);
    return member;
}

bool VadSession::fill_window(Member& member, std::span<float, kInputSamples> input) {
    const auto& [store, start, count] = member.request->audio;
    const auto fresh = input.subspan<kContextSamples>();
    const auto available = static_cast<std::size_t>(
        std::min<std::int64_t>(kWindowSamples, start + count - member.start));
    try {
        store->copy(member.start, fresh.first(available));
        if (!all_usable(fresh.first(available))) {
            throw Error(ErrorCode::kInputUndecodable, "silero-vad: a sample near " +
                                                          std::to_string(member.start) +
                                                          " is not a number that audio can have");
        }
        std::ranges::fill(fresh.subspan(available), 0.0F);
    } catch (const Error& error) {
        // The window's place in the round is taken; its mates must not notice.
        member.error = error;
        std::ranges::fill(fresh, 0.0F);
    }
    Memory& memory = member.memory;
    std::ranges::copy(std::span(memory.input).last<kContextSamples>(), input.begin());
    member.start += kWindowSamples;
    if (memory.encoded && std::memcmp(input.data(), memory.input.data(), input.size_bytes()) == 0)
        return false;
    std::ranges::copy(input, memory.input.begin());
    memory.encoded = true;
    return true;
}

void VadSession::encode(std::span<Member> members, std::size_t steps) {
    std::size_t encoded = 0;
    std::size_t waiting = 0;
    const auto flush = [&] {
        encoder_.run(*weights_, waiting, {gates_.data() + encoded * kGates, kGates});
        encoded += std::exchange(waiting, 0);
    };
    rows_.clear();
    for (Member& member : members) member.row = kRemembered;
    for (std::size_t step = 0; step < steps; ++step) {
        for (Member& member : members.first(active_members<Member>(members, step))) {
            if (fill_window(member, encoder_.samples(waiting))) {
                member.row = encoded + waiting;
                if (++waiting == Encoder::kMaxWindows) flush();
            }
            member.last_window = rows_.size();
            rows_.push_back(member.row);
        }
    }
    if (waiting > 0) flush();
    spread(members, steps);
}

/// Brings the gates of each window from where it, or the one that it repeats, was encoded to. From
/// the last window on: a row lies before all windows that need it.
void VadSession::spread(std::span<Member> members, std::size_t steps) {
    const auto row = [&](std::size_t index) {
        return std::span<float, kGates>(gates_.data() + index * kGates, kGates);
    };
    std::size_t window = rows_.size();
    for (std::size_t step = steps; step-- > 0;) {
        for (std::size_t i = active_members<Member>(members, step); i-- > 0;) {
            const std::size_t from = rows_[--window];
            if (from == kRemembered) {
                std::ranges::copy(members[i].memory.gates, row(window).begin());
            } else if (from != window) {
                std::ranges::copy(row(from), row(window).begin());
            }
        }
    }
    for (Member& member : members) {
        if (member.row != kRemembered)
            std::ranges::copy(row(member.last_window), member.memory.gates.begin());
    }
}

void VadSession::recur(std::span<Member> members, std::size_t steps) {
    for (std::size_t i = 0; i < members.size(); ++i) {
        std::ranges::copy(members[i].memory.hidden, hidden_.begin() + i * kHidden);
        std::ranges::copy(members[i].memory.cell, cell_.begin() + i * kHidden);
    }
    float* gates = gates_.data();
    for (std::size_t step = 0; step < steps; ++step) {
        const std::size_t active = active_members<Member>(members, step);
        multiply(weights_->lstm_hidden, {.inputs = kHidden, .accumulate = true},
                 {hidden_.data(), kHidden}, {gates, kGates}, active);
        for (std::size_t i = 0; i < active; ++i) {
            float* hidden = hidden_.data() + i * kHidden;
            lstm_step(gates + i * kGates, hidden, cell_.data() + i * kHidden, kHidden);
            members[i].result.probabilities.push_back(rectified_probability(
                {hidden, kHidden}, weights_->output.data(), weights_->output_bias));
        }
        gates += active * kGates;
    }
    for (std::size_t i = 0; i < members.size(); ++i) {
        std::copy_n(hidden_.begin() + i * kHidden, kHidden, members[i].memory.hidden.begin());
        std::copy_n(cell_.begin() + i * kHidden, kHidden, members[i].memory.cell.begin());
    }
}

void VadSession::run_round(std::span<Member> members) {
    const std::size_t steps =
        std::min(std::max<std::size_t>(1, round_windows_ / members.size()), members[0].windows);
    encode(members, steps);
    recur(members, steps);
    for (Member& member : members) member.windows -= std::min(member.windows, steps);
}

std::optional<TaskOutcome> VadSession::end(Member& member) {
    if (member.error) return *member.error;
    if (member.windows == 0) {
        const auto& [store, start, count] = member.request->audio;
        VadState& state = *member.state;
        state.memory = member.memory;
        state.next_sample = start + count;
        state.ended = count % static_cast<std::int64_t>(kWindowSamples) != 0;
        return std::move(member.result);
    }
    if (member.request->cancel.cancelled())
        return Error(ErrorCode::kCancelled, "silero-vad: cancelled");
    return std::nullopt;
}

std::vector<TaskOutcome> VadSession::run_batch(std::span<const TaskRequest> requests,
                                               const OnResult& on_result) {
    if (requests.size() > options_.max_batch) {
        refuse(std::to_string(requests.size()) + " requests in a batch of at most " +
               std::to_string(options_.max_batch));
    }
    std::vector<TaskOutcome> outcomes(requests.size());
    const auto finish = [&](std::size_t index, TaskOutcome outcome) {
        outcomes[index] = std::move(outcome);
        if (on_result) on_result(index, outcomes[index]);
    };

    std::vector<Member> members;
    members.reserve(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
        try {
            members.push_back(admit(requests[i], i));
        } catch (const Error& error) {
            finish(i, error);
        }
    }
    std::ranges::stable_sort(members, std::greater<>(), &Member::windows);

    // True once the member has ended, with its outcome. The state is free before anybody hears.
    const auto ended = [&](Member& member) {
        std::optional<TaskOutcome> outcome = end(member);
        if (!outcome) return false;
        member.state.release();
        finish(member.index, *std::move(outcome));
        return true;
    };
    std::erase_if(members, ended);
    while (!members.empty()) {
        run_round(members);
        std::erase_if(members, ended);
    }
    return outcomes;
}

TaskResult VadSession::run(const TaskRequest& request) { return run_alone(*this, request); }

}  // namespace wavepool::silero_vad
