#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "framework/sessions/session.h"

namespace wavepool::whisper {

/// A text token with the time at which it begins, in seconds.
struct TimedToken {
    std::string_view bytes;
    double start = 0;
    float probability = 0;
};

/// Groups tokens into words. Tokens that are parts of one character stay together. A word begins
/// with a space, or, in scripts that write none between words (Chinese, Japanese, Thai and their
/// like), with each character or group of characters that one token has; punctuation belongs to the
/// word before it, an opening bracket to the word after it. A word ends where the next begins; the
/// last one at `end`. One that lasts more than twice the median of its piece is cut to that, at its
/// end if it ends a sentence, else at its beginning: there is silence in it. Times ascend and lie
/// within [begin, end].
[[nodiscard]] std::vector<TimedWord> words_of(std::span<const TimedToken> tokens, double begin,
                                              double end);

}  // namespace wavepool::whisper
