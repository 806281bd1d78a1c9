#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace wavepool::audio {

/// One channel out of frames of several.
class ChannelSelector {
  public:
    /// `channels` of what comes in.
    ChannelSelector(int channels, int chosen)
        : channels_(static_cast<std::size_t>(channels)),
          chosen_(static_cast<std::size_t>(chosen)) {}

    /// The chosen samples; valid until the next call.
    [[nodiscard]] std::span<const float> select(std::span<const float> interleaved) {
        selected_.clear();
        for (std::size_t at = chosen_; at < interleaved.size(); at += channels_)
            selected_.push_back(interleaved[at]);
        return selected_;
    }

  private:
    std::size_t channels_;
    std::size_t chosen_;
    std::vector<float> selected_;
};

}  // namespace wavepool::audio
