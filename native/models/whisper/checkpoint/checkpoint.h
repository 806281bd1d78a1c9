#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "framework/tensors/tensor_source.h"

namespace wavepool::whisper {

inline constexpr std::int64_t kSampleRate = 16000;
inline constexpr std::int64_t kAudioContext = 1500;  ///< frames of 20 ms that 30 s are
inline constexpr std::int64_t kTextContext = 448;

/// The sizes of a model.
struct Parameters {
    std::int64_t vocabulary = 0;
    std::int64_t state = 0;  ///< width of encoder and decoder
    std::int64_t audio_heads = 0;
    std::int64_t audio_layers = 0;
    std::int64_t text_heads = 0;
    std::int64_t text_layers = 0;
    std::int64_t mel_bins = 0;

    [[nodiscard]] bool multilingual() const noexcept;
    [[nodiscard]] std::int64_t languages() const noexcept;  ///< how many it tells apart
    [[nodiscard]] std::int32_t end_token() const noexcept;  ///< all below it are text
    /// Whether it is a distilled model of the first kind. Such a model has to be told in its prompt
    /// that no times are wanted.
    [[nodiscard]] bool without_times() const noexcept;
};

/// A checkpoint of which everything but the numbers has been checked: whisper.cpp believes what its
/// file says and ends the process where that does not fit.
class Checkpoint {
  public:
    /// Checks sizes, vocabulary, and the name, shape and type of every tensor, of which none may be
    /// missing and none unknown. Reads no weights. Throws Error{kModelFileInvalid}.
    explicit Checkpoint(const TensorSource& source);

    [[nodiscard]] const Parameters& parameters() const noexcept { return parameters_; }
    [[nodiscard]] const std::vector<std::string>& tokens() const noexcept { return tokens_; }
    /// Encoder, decoder and embedding, in the order of the file that whisper.cpp is given.
    [[nodiscard]] const std::vector<std::string>& tensors() const noexcept { return tensors_; }
    [[nodiscard]] std::int32_t file_type() const noexcept { return file_type_; }
    [[nodiscard]] std::size_t weight_bytes() const noexcept { return weight_bytes_; }
    [[nodiscard]] const TensorSource& source() const noexcept { return source_; }

    /// Throws Error{kModelFileInvalid} unless every number (scale) is finite.
    void check_numbers() const;

  private:
    void read_parameters();
    void read_tokens();
    void check_tensors();

    const TensorSource& source_;
    Parameters parameters_;
    std::vector<std::string> tokens_;
    std::vector<std::string> tensors_;
    std::int32_t file_type_ = 0;
    std::size_t weight_bytes_ = 0;
};

}  // namespace wavepool::whisper
