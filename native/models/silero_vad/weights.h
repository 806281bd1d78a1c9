#pragma once

#include <array>
#include <cstddef>

#include "framework/tensors/tensor_source.h"
#include "models/silero_vad/kernels.h"

namespace wavepool::silero_vad {

inline constexpr std::size_t kWindowSamples = 512;  ///< new samples per probability
inline constexpr std::size_t kContextSamples = 64;  ///< samples before them that the window sees
inline constexpr std::size_t kInputSamples = kContextSamples + kWindowSamples;
inline constexpr std::size_t kFrameSamples = 256;  ///< of the short-time Fourier transform
inline constexpr std::size_t kHopSamples = 128;
inline constexpr std::size_t kFrames = 4;  ///< per window
inline constexpr std::size_t kBins = kFrameSamples / 2 + 1;
inline constexpr std::size_t kPoints = 6;    ///< see Weights::conv1
inline constexpr std::size_t kHidden = 128;  ///< units of the LSTM
inline constexpr std::size_t kGates = 4 * kHidden;

/// The network in the form that the kernels use. Immutable after load; shared by all sessions.
///
/// The file's transform is a Hann-windowed DFT (checked when loading). Both halves of a frame meet
/// the same cosines, and the same sines but for the sign, so a frame is folded at its middle; the
/// same holds again within the half, separately for even and odd bins. What is left to multiply is
/// a quarter of the dense transform. Bins come in the order 1, 3, …, 127, 0, 2, …, 128.
struct Weights {
    std::array<float, kFrameSamples> frame_window{};
    PackedMatrix cosine_odd;   ///< bins 1, 3, …, 127 from samples 0…63
    PackedMatrix cosine_even;  ///< bins 0, 2, …, 128 from samples 0…64
    PackedMatrix sine_odd;     ///< bins 1, 3, …, 127 from samples 1…64
    PackedMatrix sine_even;    ///< bins 0, 2, …, 126 from samples 1…63

    /// The first convolution, 129 → 128 with 3 taps over all 4 frames, at the six points of
    /// Winograd's F(4, 3): six products in place of ten. The second one has the bias.
    std::array<PackedMatrix, kPoints> conv1;

    /// Convolutions, inputs tap by tap; taps that only ever meet zero padding are left out.
    PackedMatrix conv2;  ///< 128 → 64, 3 taps, stride 2
    PackedMatrix conv3;  ///< 64 → 64, taps 1 and 2
    PackedMatrix conv4;  ///< 64 → 128, tap 1

    PackedMatrix lstm_input;   ///< its bias is the sum of the LSTM's two
    PackedMatrix lstm_hidden;  ///< no bias
    std::array<float, kHidden> output{};
    float output_bias = 0;

    [[nodiscard]] std::size_t bytes() const noexcept;
};

/// What Weights::bytes() is for any checkpoint.
[[nodiscard]] std::size_t weight_bytes() noexcept;

/// Whether the tensors have the names of this network's.
[[nodiscard]] bool has_weights(const TensorSource& source);

/// Throws Error{kModelFileInvalid} where a tensor is missing or has another shape, and where the
/// metadata describe another network. A source whose metadata name no architecture is taken at its
/// tensors' word: the Safetensors file of the release says nothing else.
void check_weights(const TensorSource& source);

/// Throws what check_weights() throws, and Error{kModelFileInvalid} for a value that is not finite
/// or a transform that is not the expected one.
[[nodiscard]] Weights load_weights(const TensorSource& source);

}  // namespace wavepool::silero_vad
