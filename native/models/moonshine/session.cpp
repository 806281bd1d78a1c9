#include "models/moonshine/session.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "framework/models/offline_limits.h"
#include "framework/sessions/session_pool.h"

namespace wavepool::moonshine {
namespace {

constexpr OfflineLimits kLimits{
    .family = "moonshine", .most_items = 256, .longest_seconds = kLongestSegmentSeconds};

constexpr std::string_view kSuppressBlank = "suppressBlank";

void check_request_options(const TaskOptions& options) {
    for (const auto& [name, value] : options) {
        if (name != kSuppressBlank) {
            throw Error(ErrorCode::kInvalidRequest, "moonshine has no option \"" + name + "\"");
        }
        if (!std::holds_alternative<bool>(value)) {
            throw Error(ErrorCode::kInvalidRequest, name + " is true or false");
        }
    }
}

/// The first input of the decoder for a request whose options have been checked.
DecodeInput first_input(const TaskOptions& options) {
    const auto found = options.find(kSuppressBlank);
    const bool suppress = found != options.end() && std::get<bool>(found->second);
    return {.token = kStartToken, .excluded = suppress ? kEndToken : kNoToken};
}

}  // namespace

bool ends_in_loop(std::span<const std::int32_t> tokens) noexcept {
    constexpr std::size_t kLongestPhrase = 16;
    constexpr std::size_t kLeastTimes = 3;
    constexpr std::size_t kLeastTokens = 12;
    for (std::size_t phrase = 1; phrase <= kLongestPhrase; ++phrase) {
        // The last `looped` tokens repeat with this period when each equals the one a phrase
        // before.
        const std::size_t looped = std::max(kLeastTimes * phrase, kLeastTokens);
        if (looped > tokens.size()) continue;
        const auto tail = tokens.last(looped);
        if (std::ranges::equal(tail.subspan(phrase), tail.first(looped - phrase))) return true;
    }
    return false;
}

std::int64_t token_limit(std::int64_t samples) noexcept {
    constexpr std::int64_t kTokensPerSecond = 6;
    constexpr std::int64_t kTokensOfAWord = 8;
    return samples * kTokensPerSecond / kSampleRate + kTokensOfAWord;
}

namespace {

NetworkLimits network_limits(const SessionOptions& options) {
    const std::int64_t longest = kLimits.longest_samples(options);
    return {.rows = static_cast<std::int64_t>(options.max_batch),
            .samples = longest + 2 * kSilenceAroundSamples,
            .tokens = token_limit(longest),
            .threads = options.threads};
}

}  // namespace

std::size_t Session::bytes(const Checkpoint& checkpoint, const SessionOptions& options) {
    kLimits.check(options);
    const NetworkLimits limits = network_limits(options);
    return checkpoint.network_bytes(limits) +
           static_cast<std::size_t>(limits.samples) * sizeof(float) +
           options.max_batch * (sizeof(DecodeInput) + sizeof(std::int32_t));
}

Session::Session(std::shared_ptr<const SharedModel> model, const SessionOptions& options)
    : model_(std::move(model)), options_(options) {
    kLimits.check(options);
    longest_samples_ = kLimits.longest_samples(options);
    const NetworkLimits limits = network_limits(options);
    network_ = model_->checkpoint->make_network(limits);
    samples_.reserve(static_cast<std::size_t>(limits.samples));
    inputs_.resize(options.max_batch);
    next_.resize(options.max_batch);
}

std::string_view Session::family() const noexcept { return "moonshine"; }

void Session::prepare(const TaskRequest& request) {
    check_segment(request.audio, longest_samples_);
    check_request_options(request.options);
}

std::size_t Session::private_bytes() const noexcept {
    return network_->bytes() + samples_.capacity() * sizeof(float) +
           inputs_.capacity() * sizeof(DecodeInput) + next_.capacity() * sizeof(std::int32_t);
}

TaskResult Session::run(const TaskRequest& request) { return run_alone(*this, request); }

std::size_t Session::parallel_session_capacity() const noexcept { return kMaxParallelSessions; }

std::unique_ptr<IVoiceTaskSession> Session::create_parallel_session() const {
    return std::make_unique<Session>(model_, options_);
}

/// One call of run_batch: encodes every item, then decodes together all that have not ended.
class Session::Batch {
  public:
    Batch(Session& session, std::span<const TaskRequest> requests, const OnResult& on_result)
        : session_(session),
          requests_(requests),
          on_result_(on_result),
          outcomes_(requests.size()) {
        members_.reserve(requests.size());
    }

    std::vector<TaskOutcome> run() {
        for (std::size_t index = 0; index < requests_.size(); ++index) encode(index);
        decode();
        for (Again& again : std::exchange(again_, {})) {
            encode(again.index, std::move(again.first));
        }
        decode();
        return std::move(outcomes_);
    }

  private:
    /// A segment that is recognized once more, and its first result.
    struct Again {
        std::size_t index;
        TaskResult first;
    };

    void decode() {
        while (drop_cancelled(), !members_.empty()) step();
    }

    void encode(std::size_t index, std::optional<TaskResult> first = std::nullopt) {
        const TaskRequest& request = requests_[index];
        const auto row = static_cast<std::int64_t>(members_.size());
        const bool between_silences = first || request.audio.count < kShortClipSamples;
        try {
            session_.prepare(request);
            session_.encode(request, row, between_silences ? kSilenceAroundSamples : 0);
        } catch (const Error& error) {
            end(index, error);
            return;
        } catch (const std::bad_alloc&) {
            end(index, Error(ErrorCode::kInsufficientMemory, "encoding a segment"));
            return;
        }
        const std::int64_t limit = token_limit(request.audio.count);
        members_.push_back(
            {.index = index, .token_limit = limit, .tokens = {}, .first = std::move(first)});
        members_.back().tokens.reserve(static_cast<std::size_t>(limit));
        session_.inputs_[static_cast<std::size_t>(row)] = first_input(request.options);
    }

    /// Decodes one more token of every member.
    void step() {
        const std::size_t live = members_.size();
        const std::span next(session_.next_.data(), live);
        try {
            session_.network_->decode(std::span(session_.inputs_.data(), live), next,
                                      [this] { return all_cancelled(); });
        } catch (const Error& error) {
            end_all(error);
            return;
        } catch (const std::bad_alloc&) {
            end_all(Error(ErrorCode::kInsufficientMemory, "decoding a batch"));
            return;
        }
        // The loop runs from the last row to the first: a member that is removed is replaced by the
        // last one, which has been handled already.
        for (std::size_t row = live; row-- > 0;) take_token(row, next[row]);
    }

    void take_token(std::size_t row, std::int32_t token) {
        Member& member = members_[row];
        if (token != kEndToken) member.tokens.push_back(token);
        const bool full = static_cast<std::int64_t>(member.tokens.size()) >= member.token_limit;
        if (token != kEndToken && !full) {
            session_.inputs_[row] = {.token = token};
            return;
        }
        TaskResult result;
        result.text = session_.model_->detokenizer.text(member.tokens);
        result.tokens = std::move(member.tokens);
        result.truncated = token != kEndToken;
        const std::size_t index = member.index;
        std::optional<TaskResult> first = std::move(member.first);
        remove(row);
        const bool doubtful = result.tokens.empty() || ends_in_loop(result.tokens);
        if (first) {
            end(index, doubtful ? *std::move(first) : std::move(result));
        } else if (doubtful && requests_[index].audio.count >= kShortClipSamples) {
            again_.push_back({.index = index, .first = std::move(result)});
        } else {
            end(index, std::move(result));
        }
    }

    void drop_cancelled() {
        for (std::size_t row = members_.size(); row-- > 0;) {
            const std::size_t index = members_[row].index;
            if (!requests_[index].cancel.cancelled()) continue;
            remove(row);
            end(index, Error(ErrorCode::kCancelled, "while decoding"));
        }
    }

    [[nodiscard]] bool all_cancelled() const noexcept {
        return std::ranges::all_of(members_, [this](const Member& member) {
            return requests_[member.index].cancel.cancelled();
        });
    }

    /// Removes a member; the last one takes its row.
    void remove(std::size_t row) {
        const std::size_t last = members_.size() - 1;
        if (row != last) {
            session_.network_->move_row(static_cast<std::int64_t>(last),
                                        static_cast<std::int64_t>(row));
            members_[row] = std::move(members_[last]);
            session_.inputs_[row] = session_.inputs_[last];
        }
        members_.pop_back();
    }

    void end_all(const Error& error) {
        const std::vector<Member> ended = std::exchange(members_, {});
        for (const Member& member : ended) end(member.index, error);
    }

    void end(std::size_t index, TaskOutcome outcome) {
        outcomes_[index] = std::move(outcome);
        if (on_result_) on_result_(index, outcomes_[index]);
    }

    Session& session_;
    std::span<const TaskRequest> requests_;
    const OnResult& on_result_;
    std::vector<TaskOutcome> outcomes_;
    std::vector<Member> members_;
    std::vector<Again> again_;
};

std::vector<TaskOutcome> Session::run_batch(std::span<const TaskRequest> requests,
                                            const OnResult& on_result) {
    check_batch(requests.size(), options_.max_batch);
    return Batch(*this, requests, on_result).run();
}

void Session::encode(const TaskRequest& request, std::int64_t row, std::int64_t around) {
    if (request.cancel.cancelled()) {
        throw Error(ErrorCode::kCancelled, "before encoding");
    }
    const auto count = static_cast<std::size_t>(request.audio.count);
    const auto before = static_cast<std::size_t>(around);
    samples_.assign(count + 2 * before, 0.0F);
    const std::span<float> clip = std::span(samples_).subspan(before, count);
    copy_samples(request.audio, clip);
    network_->encode(samples_, row, [&request] { return request.cancel.cancelled(); });
}

}  // namespace wavepool::moonshine
