#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace wavepool::audio {

/// Any number of channels → one, as speech needs it: every block of 20 ms is a weighted mean whose
/// weights follow the channels' recent energies. So equal channels stay what they are, speech on
/// one channel keeps its full level when the others are silent, and two people on a channel each
/// are both audible. A channel in anti-phase to the loudest one is inverted before it is added, so
/// that they do not cancel. Blocks lie at absolute positions: the result does not depend on how
/// the frames are divided over the calls. The output stays within [-1, 1]: a mean cannot exceed its
/// loudest channel, and floats beyond full scale are turned down, not cut.
class ChannelMixer {
  public:
    ChannelMixer(int channels, int sample_rate);

    /// Appends the mix of all blocks that are complete.
    void push(std::span<const float> interleaved, std::vector<float>& mono);
    /// Appends the last, shorter block.
    void finish(std::vector<float>& mono);

    /// Channels that have been silent (60 dB below the loudest) so far, where another was not.
    [[nodiscard]] int silent_channels() const;
    /// Whether channels in anti-phase were inverted for a good part of the sound so far.
    [[nodiscard]] bool anti_phase() const;

  private:
    struct Channel {
        double level = 0;  ///< mean square, held and slowly released
        double power = 0;  ///< decaying sum of squares
        double cross = 0;  ///< decaying sum of products with the reference channel
        double total = 0;  ///< sum of squares since the beginning
        float sign = 1;    ///< -1: inverted
        float weight = 0;  ///< signed weight in the last block
        float target = 0;  ///< signed weight in this block
    };

    void mix_block(std::size_t frames, std::vector<float>& mono);
    void separate(std::size_t frames);
    void measure(std::size_t frames);
    void choose_reference();
    void choose_signs();
    void choose_weights(std::size_t frames);
    void add_channels(std::span<float> out);
    void limit(std::span<float> block);

    std::size_t block_frames_;
    std::vector<Channel> channels_;
    std::vector<float> pending_;  ///< interleaved, less than a block between calls
    std::vector<float> planes_;   ///< the block, channel by channel, each padded with zeros …
    std::size_t plane_ = 0;       ///< … to this many, a multiple of the vector width
    std::size_t reference_ = 0;
    bool first_block_ = true;
    float gain_ = 1;
    double inverted_power_ = 0;
    double mixed_power_ = 0;
};

}  // namespace wavepool::audio
