#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "audio/audio_input.h"
#include "framework/error.h"

namespace wavepool::audio {

using Bytes = std::vector<std::uint8_t>;

/// A sine of `count` samples at `rate`.
std::vector<float> sine(double hertz, int rate, std::size_t count, double amplitude = 0.5);

/// White noise in [-amplitude, amplitude], the same for the same seed.
std::vector<float> noise(std::size_t count, std::uint32_t seed, float amplitude = 0.5F);

/// Interleaves channels of equal length.
std::vector<float> interleave(const std::vector<std::vector<float>>& channels);

/// Root mean square of samples [from, to).
double rms(std::span<const float> samples);

/// 20·log10 of the root mean square of a - b over that of b.
double error_db(std::span<const float> a, std::span<const float> b);

/// Appends integers as the WAV format has them.
void put(Bytes& bytes, std::string_view text);
void put(Bytes& bytes, const Bytes& more);
void put16(Bytes& bytes, std::uint32_t value);
void put32(Bytes& bytes, std::uint32_t value);

/// A RIFF file in parts, so that tests can lie about each of them.
struct WavParts {
    int tag = 1;
    int channels = 1;
    int rate = 16000;
    int bits = 16;
    bool extensible = false;
    Bytes before_format;  ///< whole chunks
    Bytes before_data;    ///< whole chunks
    Bytes samples;
    Bytes after_data;
    bool override_sizes = false;
    std::uint32_t riff_size = 0;
    std::uint32_t data_size = 0;

    [[nodiscard]] Bytes bytes() const;
};

/// 16-bit samples of interleaved floats.
Bytes pcm16(std::span<const float> samples);

/// A 16-bit WAV file of interleaved floats.
WavParts wav16(std::span<const float> interleaved, int rate = 16000, int channels = 1);

/// A file that exists as long as the object.
class TemporaryFile {
  public:
    explicit TemporaryFile(std::span<const std::uint8_t> bytes, std::string_view name = "input");
    ~TemporaryFile();
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;

    void write(std::span<const std::uint8_t> bytes) const;
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path folder_;
    std::filesystem::path path_;
};

struct Decoded {
    SourceInfo info;
    std::vector<float> samples;
    std::vector<std::string> warnings;  ///< codes

    [[nodiscard]] bool warned(std::string_view code) const;
};

/// Everything from here on, `step` samples at a time, released as it goes.
Decoded decode_all(AudioInput& input, std::int64_t step = 16000);
Decoded decode(std::span<const std::uint8_t> bytes, std::string_view name = "input");

/// The code with which `action` fails; a test failure and kInternal when it does not.
ErrorCode failure_of(const std::function<void()>& action);
ErrorCode failure_of_opening(std::span<const std::uint8_t> bytes, std::string_view name = "input");

Bytes read_file(const std::filesystem::path& file);
/// A file of test/fixtures/speech of the repository that the tests run in.
std::filesystem::path speech_fixture(std::string_view name);

}  // namespace wavepool::audio
