#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace wavepool::whisper {

/// Attention of a decoder's heads over audio, [head][token][frame].
struct Attention {
    std::span<const float> weights;
    std::size_t heads = 0;
    std::size_t tokens = 0;
    std::size_t frames = 0;  ///< frames of the window that was encoded
};

/// The frame in which each of the tokens [first, attention.tokens) begins: normalized over tokens,
/// smoothed by a median over 7 frames, averaged over heads, then the cheapest monotone path through
/// the first `used_frames`, which are the ones with audio. Ascending, below `used_frames`.
[[nodiscard]] std::vector<std::size_t> begin_frames(const Attention& attention, std::size_t first,
                                                    std::size_t used_frames);

}  // namespace wavepool::whisper
