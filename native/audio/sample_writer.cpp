#include "audio/sample_writer.h"

#include <algorithm>
#include <string>

#include "framework/error.h"

namespace wavepool::audio {
namespace {

int checked_rate(int sample_rate) {
    if (sample_rate < kMinSampleRate || sample_rate > kMaxSampleRate)
        throw Error(ErrorCode::kInvalidRequest,
                    "a sample rate of " + std::to_string(sample_rate) + " Hz");
    return sample_rate;
}

int checked_channels(int channels) {
    if (channels < 1 || channels > kMaxChannels)
        throw Error(ErrorCode::kInvalidRequest, std::to_string(channels) + " channels");
    return channels;
}

std::optional<ChannelSelector> selector_of(int channels, std::optional<int> channel) {
    if (!channel) return std::nullopt;
    if (*channel < 0 || *channel >= channels)
        throw Error(ErrorCode::kInvalidRequest, "channel " + std::to_string(*channel) + " of " +
                                                    std::to_string(channels) + ", counted from 0");
    return ChannelSelector(channels, *channel);
}

}  // namespace

SampleWriter::SampleWriter(int sample_rate, int channels, std::optional<int> channel)
    : channels_(checked_channels(channels)),
      selector_(selector_of(channels, channel)),
      mixer_(selector_ ? 1 : channels, checked_rate(sample_rate)),
      resampler_(sample_rate) {}

void SampleWriter::write(std::span<const float> interleaved) {
    mono_.clear();
    resampled_.clear();
    mixer_.push(selector_ ? selector_->select(interleaved) : interleaved, mono_);
    resampler_.push(mono_, resampled_);
    store_resampled();
}

void SampleWriter::finish() {
    mono_.clear();
    resampled_.clear();
    mixer_.finish(mono_);
    resampler_.push(mono_, resampled_);
    resampler_.finish(resampled_);
    store_resampled();
}

void SampleWriter::store_resampled() {
    // The filter overshoots at the edges of what is at full scale.
    for (float& one : resampled_) one = std::clamp(one, -1.0F, 1.0F);
    store_->append(resampled_);
}

std::vector<Warning> SampleWriter::warnings() const {
    std::vector<Warning> all;
    if (const int silent = mixer_.silent_channels(); silent > 0)
        all.push_back(
            {"ONE_CHANNEL_SILENT", std::to_string(silent) + " of " + std::to_string(channels_) +
                                       " channels are silent; the others are used at full level"});
    if (mixer_.anti_phase())
        all.push_back(
            {"ANTI_PHASE", "channels are in anti-phase; they were turned round before mixing"});
    return all;
}

}  // namespace wavepool::audio
