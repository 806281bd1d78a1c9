#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace wavepool::audio {

/// The encoding of one sample in a WAV file, always little-endian.
enum class SampleFormat { kU8, kS16, kS24, kS32, kF32, kF64, kALaw, kMuLaw };

[[nodiscard]] std::size_t bytes_per_sample(SampleFormat format) noexcept;

/// The name ffmpeg gives it, e.g. "pcm_s24le".
[[nodiscard]] const char* codec_name(SampleFormat format) noexcept;

/// Converts out.size() samples to f32: full scale of the integers is [-1, 1); floats keep their
/// value, except that what is not a number becomes 0 and absurd magnitudes are bounded.
void convert_samples(SampleFormat format, std::span<const std::uint8_t> bytes,
                     std::span<float> out) noexcept;

}  // namespace wavepool::audio
