#include "audio/conversion/channel_mixer.h"

#include <algorithm>
#include <cmath>

#include "audio/conversion/lanes.h"

namespace wavepool::audio {
namespace {

// Per block of 20 ms: a time constant of 200 ms, about a syllable.
constexpr double kDecay = 0.905;
// Mean squares below -120 dB of full scale are silence: they say nothing about the channels.
constexpr double kSilence = 1e-12;
// A channel whose correlation with the reference is below this is inverted.
constexpr double kAntiPhase = -0.5;
// The reference channel changes only to one that is clearly louder (6 dB).
constexpr double kReferenceMargin = 4;
constexpr double kSilentChannelRatio = 1e-6;
constexpr double kAntiPhaseShare = 0.2;
// 0.4 dB per block back up to full gain after a peak beyond full scale.
constexpr float kGainRelease = 1.05F;

float peak_of(std::span<const float> block) {
    Lanes peaks{};
    std::size_t i = 0;
    for (; i + kLanes <= block.size(); i += kLanes) {
        const Lanes samples = load(block.data() + i);
        const Lanes magnitudes = samples < 0 ? -samples : samples;
        peaks = magnitudes > peaks ? magnitudes : peaks;
    }
    float peak = 0;
    for (std::size_t lane = 0; lane < kLanes; ++lane) peak = std::max(peak, peaks[lane]);
    for (; i < block.size(); ++i) peak = std::max(peak, std::abs(block[i]));
    return peak;
}

}  // namespace

ChannelMixer::ChannelMixer(int channels, int sample_rate)
    : block_frames_(static_cast<std::size_t>(std::max(1, sample_rate / 50))),
      channels_(static_cast<std::size_t>(channels)) {
    for (Channel& channel : channels_) channel.target = 1.0F / static_cast<float>(channels);
    pending_.reserve(block_frames_ * channels_.size());
}

void ChannelMixer::push(std::span<const float> interleaved, std::vector<float>& mono) {
    const std::size_t block_samples = block_frames_ * channels_.size();
    while (!interleaved.empty()) {
        const std::size_t count = std::min(interleaved.size(), block_samples - pending_.size());
        pending_.insert(pending_.end(), interleaved.begin(),
                        interleaved.begin() + static_cast<std::ptrdiff_t>(count));
        interleaved = interleaved.subspan(count);
        if (pending_.size() == block_samples) mix_block(block_frames_, mono);
    }
}

void ChannelMixer::finish(std::vector<float>& mono) {
    if (!pending_.empty()) mix_block(pending_.size() / channels_.size(), mono);
}

void ChannelMixer::mix_block(std::size_t frames, std::vector<float>& mono) {
    const std::size_t start = mono.size();
    if (channels_.size() == 1) {
        mono.insert(mono.end(), pending_.begin(), pending_.end());
    } else {
        separate(frames);
        measure(frames);
        choose_reference();
        choose_signs();
        choose_weights(frames);
        mono.resize(start + frames, 0.0F);
        add_channels(std::span(mono).subspan(start));
    }
    limit(std::span(mono).subspan(start));
    pending_.clear();
    first_block_ = false;
}

void ChannelMixer::separate(std::size_t frames) {
    const std::size_t count = channels_.size();
    plane_ = (frames + kLanes - 1) / kLanes * kLanes;
    planes_.assign(plane_ * count, 0.0F);
    const float* in = pending_.data();
    if (count == 2) {
        float* left = planes_.data();
        float* right = left + plane_;
        for (std::size_t i = 0; i < frames; ++i) {
            left[i] = in[2 * i];
            right[i] = in[2 * i + 1];
        }
        return;
    }
    for (std::size_t c = 0; c < count; ++c)
        for (std::size_t i = 0; i < frames; ++i) planes_[c * plane_ + i] = in[i * count + c];
}

void ChannelMixer::measure(std::size_t frames) {
    const float* reference = planes_.data() + reference_ * plane_;
    for (std::size_t c = 0; c < channels_.size(); ++c) {
        const float* in = planes_.data() + c * plane_;
        Lanes square_lanes{};
        Lanes product_lanes{};
        for (std::size_t i = 0; i < plane_; i += kLanes) {
            const Lanes samples = load(in + i);
            square_lanes += samples * samples;
            product_lanes += samples * load(reference + i);
        }
        const double squares = sum_of(square_lanes);
        const double products = sum_of(product_lanes);
        Channel& channel = channels_[c];
        channel.level = std::max(squares / static_cast<double>(frames), channel.level * kDecay);
        channel.power = channel.power * kDecay + squares;
        channel.cross = channel.cross * kDecay + products;
        channel.total += squares;
    }
}

void ChannelMixer::add_channels(std::span<float> out) {
    // The weights move over the first 5 ms, so that the onset that moves them is kept.
    const std::size_t ramp = std::max<std::size_t>(1, block_frames_ / 4);
    const std::size_t moving = std::min(ramp, out.size());
    for (std::size_t c = 0; c < channels_.size(); ++c) {
        const Channel& channel = channels_[c];
        const float step = (channel.target - channel.weight) / static_cast<float>(ramp);
        const float* in = planes_.data() + c * plane_;
        for (std::size_t i = 0; i < moving; ++i)
            out[i] += (channel.weight + step * static_cast<float>(i)) * in[i];
        for (std::size_t i = moving; i < out.size(); ++i) out[i] += channel.target * in[i];
    }
}

void ChannelMixer::choose_reference() {
    std::size_t loudest = reference_;
    for (std::size_t c = 0; c < channels_.size(); ++c)
        if (channels_[c].level > channels_[loudest].level) loudest = c;
    if (channels_[loudest].level <= kReferenceMargin * channels_[reference_].level) return;
    reference_ = loudest;
    // The phase of the other channels to the new reference is not known yet.
    for (Channel& channel : channels_) channel.cross = 0;
}

void ChannelMixer::choose_signs() {
    const Channel& reference = channels_[reference_];
    for (Channel& channel : channels_) {
        const double scale = std::sqrt(channel.power * reference.power);
        const double correlation = channel.cross * channel.sign * reference.sign;
        if (scale > kSilence && correlation < kAntiPhase * scale) channel.sign = -channel.sign;
    }
}

void ChannelMixer::choose_weights(std::size_t frames) {
    double sum = 0;
    for (const Channel& channel : channels_) sum += channel.level;
    const float reference_sign = channels_[reference_].sign;
    bool inverted = false;
    for (Channel& channel : channels_) {
        channel.weight = channel.target;
        if (sum < kSilence) continue;
        const float share = static_cast<float>(channel.level / sum);
        channel.target = channel.sign * share;
        if (first_block_) channel.weight = channel.target;
        inverted = inverted || (channel.sign != reference_sign && share > 0.1F);
    }
    const double power = sum * static_cast<double>(frames);
    mixed_power_ += power;
    if (inverted) inverted_power_ += power;
}

void ChannelMixer::limit(std::span<float> block) {
    const float peak = peak_of(block);
    const float loudest_gain = peak > 1.0F ? 1.0F / peak : 1.0F;
    gain_ = std::min(loudest_gain, gain_ * kGainRelease);
    if (gain_ == 1.0F) return;
    for (float& sample : block) sample = std::clamp(sample * gain_, -1.0F, 1.0F);
}

int ChannelMixer::silent_channels() const {
    double loudest = 0;
    for (const Channel& channel : channels_) loudest = std::max(loudest, channel.total);
    if (loudest == 0) return 0;
    return static_cast<int>(std::count_if(
        channels_.begin(), channels_.end(),
        [&](const Channel& channel) { return channel.total <= kSilentChannelRatio * loudest; }));
}

bool ChannelMixer::anti_phase() const {
    return inverted_power_ > kAntiPhaseShare * mixed_power_ && inverted_power_ > 0;
}

}  // namespace wavepool::audio
