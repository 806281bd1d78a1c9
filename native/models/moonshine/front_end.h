#pragma once

#include <algorithm>
#include <cstdint>

namespace wavepool::moonshine {

// The convolutions that turn samples into frames; none of them pads.
inline constexpr std::int64_t kConv1Kernel = 127;
inline constexpr std::int64_t kConv1Taps = 128;  ///< kernel with one zero tap for alignment
inline constexpr std::int64_t kConv1Stride = 64;
inline constexpr std::int64_t kConv2Kernel = 7;
inline constexpr std::int64_t kConv2Stride = 3;
inline constexpr std::int64_t kConv3Kernel = 3;
inline constexpr std::int64_t kConv3Stride = 2;

/// Samples of the shortest clip with a frame of its own; shorter ones are padded with silence.
inline constexpr std::int64_t kShortestClip = 895;

struct FrameCounts {
    std::int64_t conv1 = 0;
    std::int64_t conv2 = 0;
    std::int64_t frames = 0;  ///< that the encoder sees, 41.7 per second
};

[[nodiscard]] constexpr FrameCounts frame_counts(std::int64_t samples) noexcept {
    FrameCounts counts;
    counts.conv1 = (std::max(samples, kShortestClip) - kConv1Kernel) / kConv1Stride + 1;
    counts.conv2 = (counts.conv1 - kConv2Kernel) / kConv2Stride + 1;
    counts.frames = (counts.conv2 - kConv3Kernel) / kConv3Stride + 1;
    return counts;
}

static_assert(frame_counts(kShortestClip).frames == 1);
static_assert((kShortestClip - 1 - kConv1Kernel) / kConv1Stride + 1 <
              frame_counts(kShortestClip).conv1);

}  // namespace wavepool::moonshine
