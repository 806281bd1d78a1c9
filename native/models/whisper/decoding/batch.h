#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "framework/sessions/session.h"
#include "models/whisper/checkpoint/network.h"
#include "models/whisper/decoding/shared_model.h"
#include "models/whisper/decoding/window.h"
#include "models/whisper/request/request_options.h"

namespace wavepool::whisper {

/// The samples of a request as the model gets them.
struct Clip {
    std::vector<float> samples;  ///< at least kShortestSamples
    double seconds = 0;          ///< length of the request's audio
};

/// Requests that are decoded together on a network: each is encoded as soon as a row is free and
/// leaves the batch when it ends.
///
/// A request is decoded in its reduced context first and, where the result does not stand, in all
/// 30 s, as Session describes it. One that would need a higher temperature is handed back.
class Batch {
  public:
    struct Host {
        const SharedModel& model;
        Network& network;
        std::size_t rows = 1;
        std::function<void(const TaskRequest& request, Clip& clip)> read;
        std::function<void(std::size_t index, TaskOutcome outcome)> end;
        std::function<void(std::size_t index)> hand_back;
    };

    Batch(const Host& host, std::span<const TaskRequest> requests);
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;

    /// Runs those requests, whose options have been checked.
    void run(std::span<const std::size_t> indices);

  private:
    enum class Context { kReduced, kFull };

    /// A request that is being decoded; its place in members_ is its row in the network.
    struct Member {
        std::size_t index = 0;
        RequestOptions options;
        Context context = Context::kReduced;
        int language = 0;
        double seconds = 0;
        int end = 0;                       ///< ticks of the clip
        std::vector<std::int32_t> past;    ///< tokens of earlier windows, for the next prompt
        std::vector<std::int32_t> prompt;  ///< the prompt of the current window
        std::size_t fed = 0;               ///< how many tokens of the prompt have been decoded
        std::size_t start = 0;             ///< place of the start token in the prompt
        std::vector<Window> windows;       ///< the last one is the current
    };

    void admit(std::size_t index);
    void step();
    void take_scores(std::size_t row);
    void end_window(std::size_t row);
    void start_window(std::size_t row, int begin);
    void write_prompt(Member& member, int begin) const;
    /// Decodes again in the full context, from window `first` on.
    void retry_in_full_context(std::size_t row, std::size_t first);
    void finish(std::size_t row);
    void drop_cancelled();
    void remove(std::size_t row);
    /// Ends the member with what is being thrown.
    void fail(std::size_t row);
    [[nodiscard]] bool all_cancelled() const noexcept;
    [[nodiscard]] DecodeInput input_of(const Member& member) const noexcept;

    Host host_;
    std::span<const TaskRequest> requests_;
    Clip clip_;
    std::vector<Member> members_;
    std::vector<DecodeInput> inputs_;
};

}  // namespace wavepool::whisper
