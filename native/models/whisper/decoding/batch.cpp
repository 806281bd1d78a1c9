#include "models/whisper/decoding/batch.h"

#include <algorithm>
#include <utility>

#include "framework/error.h"
#include "models/whisper/decoding/guards.h"
#include "models/whisper/decoding/transcript.h"

namespace wavepool::whisper {
namespace {

/// The most tokens of earlier text that the prompt of a window holds.
constexpr std::size_t kMostPastTokens = kTextContext / 2 - 1;
/// A last window of fewer ticks than this gets no earlier text in its prompt, which would mislead
/// it, and its text may be unlikely: often it is a word that the end of the clip cuts.
constexpr int kShortRest = 500;
/// The ticks that a window must have decoded before what it skipped is decoded in another window.
constexpr int kLeastDecoded = 50;

int ticks_of(std::size_t samples) {
    constexpr std::int64_t kTickSamples = kSampleRate / 100;
    constexpr std::int64_t kHalfWindow = 200;
    return static_cast<int>(1 + (static_cast<std::int64_t>(samples) - kHalfWindow) / kTickSamples);
}

}  // namespace

Batch::Batch(const Host& host, std::span<const TaskRequest> requests)
    : host_(host), requests_(requests) {
    members_.reserve(host.rows);
    inputs_.reserve(host.rows);
}

void Batch::run(std::span<const std::size_t> indices) {
    while (true) {
        while (members_.size() < host_.rows && !indices.empty()) {
            admit(indices.front());
            indices = indices.subspan(1);
        }
        drop_cancelled();
        if (members_.empty() && indices.empty()) return;
        if (!members_.empty()) step();
    }
}

void Batch::admit(std::size_t index) {
    Member member;
    member.index = index;
    member.options = read_options(requests_[index].options, host_.model.parameters);
    member.language = member.options.language.value_or(0);
    member.past = host_.model.vocabulary.encode(member.options.prompt);
    members_.push_back(std::move(member));
    start_window(members_.size() - 1, 0);
}

DecodeInput Batch::input_of(const Member& member) const noexcept {
    if (member.fed >= member.prompt.size()) return {.token = member.windows.back().last_token()};
    const bool scored = member.fed == member.start || member.fed + 1 == member.prompt.size();
    return {.token = member.prompt[member.fed], .scored = scored};
}

void Batch::step() {
    inputs_.clear();
    for (const Member& member : members_) inputs_.push_back(input_of(member));
    try {
        host_.network.decode(inputs_, [this] { return all_cancelled(); });
    } catch (...) {
        for (std::size_t row = members_.size(); row-- > 0;) fail(row);
        return;
    }
    // The loop runs from the last row to the first: a member that is removed is replaced by the
    // last one, which has been handled already.
    for (std::size_t row = members_.size(); row-- > 0;) take_scores(row);
}

void Batch::take_scores(std::size_t row) {
    Member& member = members_[row];
    Window& window = member.windows.back();
    const auto at = static_cast<std::int64_t>(row);
    if (member.fed == member.start) {
        const std::span<float> scores = host_.network.scores(at);
        window.read_no_speech(scores);
        if (host_.model.parameters.multilingual() && !member.options.language) {
            const auto first = static_cast<std::size_t>(host_.model.special.first_language);
            const auto languages = scores.subspan(first, host_.model.languages.size());
            member.language =
                static_cast<int>(std::ranges::max_element(languages) - languages.begin());
            member.prompt[member.start + 1] = host_.model.special.first_language + member.language;
            member.options.language = member.language;
        }
    }
    if (member.fed < member.prompt.size() && ++member.fed < member.prompt.size()) return;
    window.choose(host_.network.scores(at));
    if (window.state() != Window::State::kDecoding) end_window(row);
}

void Batch::end_window(std::size_t row) {
    Member& member = members_[row];
    Window& window = member.windows.back();
    const bool rest = member.windows.size() > 1 && window.begin() + kShortRest >= member.end;
    if (member.context == Context::kReduced) {
        const bool stands = window.state() == Window::State::kCompleted &&
                            window.average_log_probability() >= kTrustedLogProbability &&
                            window.skipped() <= kShortRest;
        if (!stands) return retry_in_full_context(row, member.windows.size() - 1);
    } else if (rest ? window.broken() : window.doubtful()) {
        const std::size_t index = member.index;
        remove(row);
        return host_.hand_back(index);
    }
    member.past.clear();
    if (member.prompt.front() == host_.model.special.previous) {
        member.past.assign(member.prompt.begin() + 1,
                           member.prompt.begin() + static_cast<std::ptrdiff_t>(member.start));
    }
    if (!window.silent()) {
        for (const Window::Token& token : window.tokens()) member.past.push_back(token.id);
    }
    const bool lost = window.skipped() > kShortRest && window.last_time() >= kLeastDecoded;
    const int begin = window.begin() + (lost ? window.last_time() : window.advance());
    if (begin + kShortestWindow >= member.end) return finish(row);
    start_window(row, begin);
}

void Batch::write_prompt(Member& member, int begin) const {
    const library::SpecialTokens& special = host_.model.special;
    if (begin > 0 && begin + kShortRest >= member.end) member.past.clear();
    member.prompt.clear();
    if (!member.past.empty()) {
        const std::size_t count = std::min(member.past.size(), kMostPastTokens);
        member.prompt.push_back(special.previous);
        member.prompt.insert(member.prompt.end(),
                             member.past.end() - static_cast<std::ptrdiff_t>(count),
                             member.past.end());
    }
    member.start = member.prompt.size();
    member.fed = 0;
    member.prompt.push_back(special.start);
    if (!host_.model.parameters.multilingual()) return;
    member.prompt.push_back(special.first_language + member.language);
    member.prompt.push_back(member.options.translate ? special.translate : special.transcribe);
}

void Batch::start_window(std::size_t row, int begin) {
    Member& member = members_[row];
    const TaskRequest& request = requests_[member.index];
    try {
        if (request.cancel.cancelled()) throw Error(ErrorCode::kCancelled, "before encoding");
        host_.read(request, clip_);
        member.seconds = clip_.seconds;
        member.end = ticks_of(clip_.samples.size());
        const auto samples = static_cast<std::int64_t>(clip_.samples.size());
        const std::int64_t frames =
            member.context == Context::kReduced ? audio_frames(samples) : kAudioContext;
        host_.network.encode(clip_.samples, begin, frames, static_cast<std::int64_t>(row),
                             [&request] { return request.cancel.cancelled(); });
        write_prompt(member, begin);
        member.windows.emplace_back(
            Window::Setting{.tokens = host_.model.special,
                            .begin = begin,
                            .end = member.end,
                            .suppress_blank = member.options.suppress_blank});
    } catch (...) {
        fail(row);
    }
}

void Batch::retry_in_full_context(std::size_t row, std::size_t first) {
    Member& member = members_[row];
    const int begin = member.windows[first].begin();
    member.context = Context::kFull;
    while (member.windows.size() > first) member.windows.pop_back();
    if (first == 0) member.past = host_.model.vocabulary.encode(member.options.prompt);
    start_window(row, begin);
}

void Batch::finish(std::size_t row) {
    Member& member = members_[row];
    TaskResult result = transcript_of(host_.model, member.windows, member.language, member.seconds);
    if (member.context == Context::kReduced && result.pieces.empty())
        return retry_in_full_context(row, 0);
    const std::size_t index = member.index;
    remove(row);
    host_.end(index, std::move(result));
}

void Batch::drop_cancelled() {
    for (std::size_t row = members_.size(); row-- > 0;) {
        const std::size_t index = members_[row].index;
        if (!requests_[index].cancel.cancelled()) continue;
        remove(row);
        host_.end(index, Error(ErrorCode::kCancelled, "while decoding"));
    }
}

bool Batch::all_cancelled() const noexcept {
    return std::ranges::all_of(members_, [this](const Member& member) {
        return requests_[member.index].cancel.cancelled();
    });
}

void Batch::remove(std::size_t row) {
    const std::size_t last = members_.size() - 1;
    if (row != last) {
        host_.network.move_row(static_cast<std::int64_t>(last), static_cast<std::int64_t>(row));
        members_[row] = std::move(members_[last]);
    }
    members_.pop_back();
}

void Batch::fail(std::size_t row) {
    Error error = error_from_current_exception();
    const std::size_t index = members_[row].index;
    remove(row);
    host_.end(index, std::move(error));
}

}  // namespace wavepool::whisper
