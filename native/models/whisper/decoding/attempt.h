#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "framework/sessions/session.h"
#include "models/whisper/decoding/shared_model.h"
#include "models/whisper/request/request_options.h"

namespace wavepool::whisper {

/// One run of whisper.cpp over a request, from samples to text.
class Attempt {
  public:
    struct Setting {
        const SharedModel& model;
        whisper_state& state;
        int threads;
        /// The attempt raises it when its text is in a loop; the backend's abort callback then
        /// stops it.
        std::atomic<bool>& stuck;
    };
    enum class Effort {
        kOnce,       ///< greedily; given up as soon as it goes in a loop
        kUntilGood,  ///< with rising temperatures, as whisper.cpp does by itself
    };

    Attempt(const Setting& setting, const RequestOptions& options, std::span<const float> samples,
            int frames, Effort effort);
    Attempt(const Attempt&) = delete;
    Attempt& operator=(const Attempt&) = delete;

    /// Throws Error{kCancelled | kInsufficientMemory | kInternal}.
    void run(const CancelToken& cancel);

    /// Whether a single greedy attempt may stand: there is text, its end was found, it does not
    /// repeat itself, and its mean log probability is at least kTrustedLogProbability.
    [[nodiscard]] bool trusted() const;

    /// Times lie within [0, seconds].
    [[nodiscard]] TaskResult result(double seconds) const;

  private:
    /// The result of whisper.cpp for one window. A request has one window, rarely more.
    struct Window {
        int first_segment = 0;
        int end_segment = 0;
        int temperature_step = 0;
        std::vector<double> token_starts;  ///< s, of all its text tokens; if words are wanted
    };

    [[nodiscard]] whisper_full_params parameters();
    void end_window();
    void filter(std::span<const whisper_token_data> tokens, float* logits);
    [[nodiscard]] std::vector<double> align(const Window& window);
    [[nodiscard]] std::vector<whisper_token_data> tokens_of(int segment) const;
    [[nodiscard]] TimedPiece piece(int segment, const Window& window,
                                   std::span<const double> starts, double seconds) const;

    Setting setting_;
    const RequestOptions& options_;
    std::span<const float> samples_;
    int frames_;
    Effort effort_;
    int language_ = 0;
    std::vector<std::int32_t> prompt_;
    std::vector<Window> windows_;
    bool completed_ = true;
    double log_probability_ = 0;
    bool ran_ = false;  ///< at least one window
    bool alignment_failed_ = false;
};

}  // namespace wavepool::whisper
