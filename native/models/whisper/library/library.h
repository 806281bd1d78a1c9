#pragma once

#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <whisper.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

/// whisper.cpp, and what its C interface does not reach. Nothing here throws anything but
/// std::bad_alloc and what a standard container throws; nothing is written to the terminal.
namespace wavepool::whisper::library {

struct ContextDeleter {
    void operator()(whisper_context* context) const noexcept { whisper_free(context); }
};
struct StateDeleter {
    void operator()(whisper_state* state) const noexcept { whisper_free_state(state); }
};
using ContextPtr = std::unique_ptr<whisper_context, ContextDeleter>;
using StatePtr = std::unique_ptr<whisper_state, StateDeleter>;

/// Loads a model from a stream of bytes that have been validated. Null when memory is short.
[[nodiscard]] ContextPtr load(whisper_model_loader& loader);

/// A state whose decoder is sized for one token at a time; it grows when a prompt or an alignment
/// needs more. Null when memory is short. As it makes a backend, one caller of the process at a
/// time (construct_backend()).
[[nodiscard]] StatePtr make_state(whisper_context& context);

/// The bytes of all memory that a state holds now.
[[nodiscard]] std::size_t bytes(const whisper_state& state);

/// Sets the threads and the abort callback of a state; both may be null. The pool must outlive the
/// state; `abort` is polled after each node of a graph.
void use(whisper_state& state, ggml_threadpool_t pool, ggml_abort_callback abort, void* abort_data);

/// Makes the state as a new one is, for a request with this many frames of audio: nothing of an
/// earlier request (the generator of random numbers, padded cache rows, the size of the encoder)
/// has an effect on the next.
void restart(const whisper_context& context, whisper_state& state, int audio_frames);

/// What whisper.cpp tells of the window that was decoded last.
struct WindowReport {
    int failed_temperatures = 0;  ///< in all windows since restart()
    bool completed = false;       ///< the end was found, not the limit of tokens
    double average_log_probability = 0;
    float no_speech_probability = 0;
};
[[nodiscard]] WindowReport report(const whisper_state& state);

/// The likeliest of the first `languages` languages, by its id. Encodes the first window. Negative
/// when aborted.
[[nodiscard]] int detect_language(whisper_context& context, whisper_state& state,
                                  std::span<const float> samples, int languages, int threads);

/// The tokens that decoding is steered by; each is below the size of the vocabulary.
struct SpecialTokens {
    whisper_token end = 0;
    whisper_token start = 0;
    whisper_token first_language = 0;
    whisper_token translate = 0;
    whisper_token transcribe = 0;
    whisper_token previous = 0;
    whisper_token no_speech = 0;
    whisper_token first_time = 0;  ///< 0 s; each later one is 20 ms more
    whisper_token space = 0;
    /// Never chosen: all special ones but the end and times, and those of noises and brackets.
    std::vector<whisper_token> suppressed;
};
[[nodiscard]] SpecialTokens special_tokens(whisper_context& context);

/// A head of the decoder's cross attention that follows the audio.
struct AlignmentHead {
    int layer = 0;
    int head = 0;
};
/// The heads that are known for a model of these sizes, else all heads of the upper half of the
/// layers.
[[nodiscard]] std::vector<AlignmentHead> alignment_heads(const whisper_context& context);

/// Attention of each head, token and frame ([head][token][frame], each a softmax over all frames)
/// when the decoder reads `tokens` about the window that was encoded last. The decoder's caches are
/// overwritten: the window must be done with. False when aborted.
[[nodiscard]] bool attention(const whisper_context& context, whisper_state& state,
                             std::span<const AlignmentHead> heads,
                             std::span<const whisper_token> tokens, int threads,
                             std::vector<float>& weights);

}  // namespace wavepool::whisper::library
