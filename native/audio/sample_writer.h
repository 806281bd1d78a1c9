#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "audio/containers/frame_reader.h"
#include "audio/conversion/channel_mixer.h"
#include "audio/conversion/resampler.h"
#include "framework/sample_store.h"

namespace wavepool::audio {

/// Frames of any rate and number of channels become 16 kHz mono in a store: mixed, or one channel
/// of them, then resampled. The samples do not depend on how the frames are divided over the calls.
/// Used by one thread at a time; `store()` by any.
class SampleWriter {
  public:
    /// `channel` counts from 0; without it all are mixed. Throws Error{kInvalidRequest} outside
    /// kMinSampleRate…kMaxSampleRate and 1…kMaxChannels, and for a channel that is not there.
    SampleWriter(int sample_rate, int channels, std::optional<int> channel = std::nullopt);

    [[nodiscard]] const std::shared_ptr<SampleStore>& store() const noexcept { return store_; }

    /// `interleaved` holds whole frames. What the filters need more context for comes later.
    void write(std::span<const float> interleaved);
    /// Appends the rest. Nothing may be written after.
    void finish();

    /// Warnings about the channels of what has been written so far.
    [[nodiscard]] std::vector<Warning> warnings() const;

  private:
    /// The samples that are mixed: all, or those of the one channel.
    [[nodiscard]] std::span<const float> selected(std::span<const float> interleaved);
    void store_resampled();

    const int channels_;
    const std::optional<int> channel_;
    const std::shared_ptr<SampleStore> store_ = std::make_shared<SampleStore>();
    ChannelMixer mixer_;
    Resampler resampler_;
    std::vector<float> selected_;
    std::vector<float> mono_;
    std::vector<float> resampled_;
};

}  // namespace wavepool::audio
