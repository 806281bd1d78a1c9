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

std::optional<int> checked_channel(std::optional<int> channel, int channels) {
    if (channel && (*channel < 0 || *channel >= channels))
        throw Error(ErrorCode::kInvalidRequest, "channel " + std::to_string(*channel) + " of " +
                                                    std::to_string(channels) + ", counted from 0");
    return channel;
}

}  // namespace

SampleWriter::SampleWriter(int sample_rate, int channels, std::optional<int> channel)
    : channels_(checked_channels(channels)),
      channel_(checked_channel(channel, channels)),
      mixer_(channel_ ? 1 : channels, checked_rate(sample_rate)),
      resampler_(sample_rate) {}

std::span<const float> SampleWriter::selected(std::span<const float> interleaved) {
    if (!channel_) return interleaved;
    selected_.clear();
    const auto channels = static_cast<std::size_t>(channels_);
    for (auto at = static_cast<std::size_t>(*channel_); at < interleaved.size(); at += channels)
        selected_.push_back(interleaved[at]);
    return selected_;
}

void SampleWriter::write(std::span<const float> interleaved) {
    mono_.clear();
    resampled_.clear();
    mixer_.push(selected(interleaved), mono_);
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
