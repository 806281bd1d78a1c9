#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "audio/conversion/lanes.h"

namespace wavepool::audio {

/// The hybrid filter bank of MPEG-1 layer III, backwards, for one channel: from spectral lines to
/// every second sample. It takes the lower half of the subbands only, so that what it gives is the
/// sound below a quarter of the stream's rate; the other half of the samples would say nothing new.
class Mp3HalfRateSynthesis {
  public:
    static constexpr std::size_t kSubbands = 16;
    static constexpr std::size_t kLinesPerSubband = 18;
    static constexpr std::size_t kLines = kSubbands * kLinesPerSubband;
    /// Of one granule, at half the rate.
    static constexpr std::size_t kSamples = kLines;
    /// Of the prototype of the polyphase filter, "D" of ISO/IEC 11172-3.
    static constexpr std::size_t kWindowPoints = 512;

    /// How a granule's lines are divided over time, in the numbers of the format.
    struct Blocks {
        static constexpr int kShort = 2;

        int type = 0;             ///< 0 normal, 1 start, 2 short, 3 stop
        int normal_subbands = 0;  ///< this many of the lowest are of type 0 all the same

        bool operator==(const Blocks&) const = default;
    };

    /// Constant, and shared by the channels of a stream.
    class Tables {
      public:
        /// `phase` chooses the samples: 0 the even ones, counted from the start of the stream, 1
        /// the odd ones. `window` also scales.
        Tables(std::span<const float, kWindowPoints> window, int phase);

      private:
        friend class Mp3HalfRateSynthesis;
        static constexpr std::size_t kTaps = 8;

        int phase_;
        // [input][output]: of a slot's subbands, those values of "V" that are not the others
        // mirrored: the first eight of its first half, then of its second.
        alignas(32) std::array<std::array<float, kSubbands>, kSubbands> matrix_;
        // For the even and for the odd slots back in time.
        alignas(32) std::array<std::array<float, kSubbands>, kTaps> even_window_;
        alignas(32) std::array<std::array<float, kSubbands>, kTaps> odd_window_;
    };

    explicit Mp3HalfRateSynthesis(std::shared_ptr<const Tables> tables);

    /// As after construction.
    void forget() noexcept;

    /// `lines` after stereo processing, reordering and alias reduction, subband by subband; in
    /// short blocks the three windows' lines alternate.
    void add_granule(std::span<const float, kLines> lines, const Blocks& blocks,
                     std::span<float, kSamples> out) noexcept;

  private:
    static constexpr std::size_t kGroups = kSubbands / kLanes;
    static constexpr std::size_t kPastSlots = 2 * Tables::kTaps - 1;

    using Slots = std::array<std::array<Lanes, kGroups>, kLinesPerSubband>;

    void hybrid(std::span<const float, kLines> lines, const Blocks& blocks, Slots& slots) noexcept;
    void polyphase(const Slots& slots, std::span<float, kSamples> out) noexcept;

    std::shared_ptr<const Tables> tables_;
    // The second halves of the last granule's blocks, windowed.
    std::array<std::array<Lanes, kLinesPerSubband>, kGroups> overlap_{};
    // "V" of the last slots, then of those of the granule.
    alignas(
        32) std::array<std::array<float, 2 * kSubbands>, kPastSlots + kLinesPerSubband> history_{};
};

}  // namespace wavepool::audio
