#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "framework/compute/backend.h"
#include "framework/sessions/session.h"
#include "models/whisper/decoding/shared_model.h"
#include "models/whisper/library/library.h"
#include "models/whisper/request/request_options.h"

namespace wavepool::whisper {

/// Runs requests on a whisper.cpp state and its own threads, one at a time.
class Recognizer {
  public:
    /// Throws Error{kInsufficientMemory}.
    Recognizer(std::shared_ptr<const SharedModel> model, int threads);
    ~Recognizer();
    Recognizer(const Recognizer&) = delete;
    Recognizer& operator=(const Recognizer&) = delete;

    enum class Context {
        kReducedFirst,  ///< 30 s only if less is not enough
        kFull,
    };

    /// Transcribes 16 kHz samples, at least kShortestSamples. Times of the result are in seconds,
    /// within [0, seconds]. Throws Error{kCancelled | kInsufficientMemory | kInternal}; usable
    /// after each of them. The result depends on nothing that ran before.
    [[nodiscard]] TaskResult run(std::span<const float> samples, double seconds,
                                 const RequestOptions& options, Context context,
                                 const CancelToken& cancel);

    [[nodiscard]] std::size_t bytes() const;

  private:
    std::shared_ptr<const SharedModel> model_;
    int threads_;
    // Destruction order: the state's backend uses the pool.
    ThreadpoolPtr pool_;
    library::StatePtr state_;
    const CancelToken* cancel_ = nullptr;  ///< the token of the running request
    std::atomic<bool> stuck_ = false;      ///< the running attempt is not worth its end
};

}  // namespace wavepool::whisper
