#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace wavepool::testing {

/// A small Moonshine checkpoint with random weights, to be spoiled before it is written. Its head
/// width of 12 is not one that matrix kernels like. It never chooses the end token, so that every
/// segment runs into its token limit.
class MoonshineCheckpoint {
  public:
    static constexpr std::int64_t kWidth = 96;
    static constexpr std::int64_t kFeedForward = 64;
    static constexpr std::int64_t kBlocks = 2;
    static constexpr std::int64_t kHeads = 8;
    static constexpr std::int64_t kVocabulary = 320;

    MoonshineCheckpoint();

    struct Tensor {
        std::vector<std::int64_t> shape;  ///< outermost first
        std::vector<float> values;
    };

    std::map<std::string, std::uint32_t> sizes;  ///< metadata, without "moonshine."
    std::vector<std::string> pieces;
    std::map<std::string, Tensor> tensors;
    /// Whether matrices are written as integers with a scale and an offset, as what our own kernels
    /// take, or as floats.
    bool integers = false;

    [[nodiscard]] std::string bytes() const;

  private:
    void add(const std::string& name, std::vector<std::int64_t> shape, float scale);
    void add_norm(const std::string& name, std::int64_t width);

    std::uint32_t seed_ = 1;
};

}  // namespace wavepool::testing
