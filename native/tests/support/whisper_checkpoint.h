#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace wavepool::testing {

/// A Whisper model of one layer and one head on either side, in whisper.cpp's ggml format, whose
/// text depends on what it hears: one to four words, "wNUMBER" each. It can be damaged before it is
/// written.
class WhisperCheckpoint {
  public:
    static constexpr std::int32_t kWidth = 64;

    explicit WhisperCheckpoint(bool multilingual = false);

    struct Tensor {
        std::string name;
        std::vector<std::int32_t> shape;  ///< outermost first
        std::int32_t type = 0;            ///< ggml's number
        std::string numbers;
    };

    std::uint32_t magic = 0x67676d6c;
    /// The sizes in the order of the file: vocabulary, audio context, state, heads, layers, text
    /// context, state, heads, layers, mel bins, file type.
    std::array<std::int32_t, 11> parameters;
    std::int32_t mel_bins = 80;
    std::int32_t mel_frequencies = 201;
    std::string mel_filters;
    std::vector<std::string> tokens;
    std::vector<Tensor> tensors;

    [[nodiscard]] Tensor& tensor(const std::string& name);
    /// The bytes before the first tensor, and the bytes of the whole file.
    [[nodiscard]] std::string header() const;
    [[nodiscard]] std::string bytes() const;

  private:
    std::vector<float> random(std::size_t count, float scale);
    void add(const std::string& name, std::vector<std::int32_t> shape, std::vector<float> values,
             bool half = false);
    void add_norm(const std::string& name);
    void add_linear(const std::string& name, std::int32_t out, std::int32_t in, float scale,
                    bool bias = true);
    void add_attention(const std::string& name, float out_scale);
    void add_decoder();

    std::uint32_t seed_ = 1;
};

}  // namespace wavepool::testing
