#include "tests/support/audio_samples.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <numbers>
#include <random>
#include <stdexcept>

namespace wavepool::audio {

std::vector<float> sine(double hertz, int rate, std::size_t count, double amplitude) {
    std::vector<float> samples(count);
    for (std::size_t i = 0; i < count; ++i)
        samples[i] = static_cast<float>(
            amplitude *
            std::sin(2 * std::numbers::pi * std::fmod(hertz * static_cast<double>(i) / rate, 1.0)));
    return samples;
}

std::vector<float> noise(std::size_t count, std::uint32_t seed, float amplitude) {
    std::mt19937 generator(seed);
    std::vector<float> samples(count);
    for (float& sample : samples)
        sample = amplitude * (static_cast<float>(generator()) / 2147483648.0F - 1.0F);
    return samples;
}

std::vector<float> interleave(const std::vector<std::vector<float>>& channels) {
    std::vector<float> frames;
    for (std::size_t i = 0; i < channels.front().size(); ++i)
        for (const std::vector<float>& channel : channels) frames.push_back(channel[i]);
    return frames;
}

double rms(std::span<const float> samples) {
    double sum = 0;
    for (const float sample : samples) sum += static_cast<double>(sample) * sample;
    return std::sqrt(sum / static_cast<double>(std::max<std::size_t>(1, samples.size())));
}

double error_db(std::span<const float> a, std::span<const float> b) {
    std::vector<float> difference(std::min(a.size(), b.size()));
    for (std::size_t i = 0; i < difference.size(); ++i) difference[i] = a[i] - b[i];
    return 20 * std::log10(rms(difference) / rms(b.first(difference.size())));
}

void put(Bytes& bytes, std::string_view text) {
    std::copy(text.begin(), text.end(), std::back_inserter(bytes));
}

void put(Bytes& bytes, const Bytes& more) {
    std::copy(more.begin(), more.end(), std::back_inserter(bytes));
}

void put16(Bytes& bytes, std::uint32_t value) {
    bytes.push_back(static_cast<std::uint8_t>(value));
    bytes.push_back(static_cast<std::uint8_t>(value >> 8));
}

void put32(Bytes& bytes, std::uint32_t value) {
    put16(bytes, value);
    put16(bytes, value >> 16);
}

Bytes WavParts::bytes() const {
    const int frame_bytes = channels * ((bits + 7) / 8);
    Bytes format;
    put16(format, extensible ? 0xFFFE : static_cast<std::uint32_t>(tag));
    put16(format, static_cast<std::uint32_t>(channels));
    put32(format, static_cast<std::uint32_t>(rate));
    put32(format, static_cast<std::uint32_t>(rate) * static_cast<std::uint32_t>(frame_bytes));
    put16(format, static_cast<std::uint32_t>(frame_bytes));
    put16(format, static_cast<std::uint32_t>(bits));
    if (extensible) {
        put16(format, 22);
        put16(format, static_cast<std::uint32_t>(bits));
        put32(format, 0);
        put16(format, static_cast<std::uint32_t>(tag));
        for (const int byte : {0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xAA, 0, 0x38, 0x9B, 0x71})
            format.push_back(static_cast<std::uint8_t>(byte));
    }
    Bytes body;
    put(body, "WAVE");
    put(body, before_format);
    put(body, "fmt ");
    put32(body, static_cast<std::uint32_t>(format.size()));
    put(body, format);
    put(body, before_data);
    put(body, "data");
    put32(body, override_sizes ? data_size : static_cast<std::uint32_t>(samples.size()));
    put(body, samples);
    put(body, after_data);

    Bytes file;
    put(file, "RIFF");
    put32(file, override_sizes ? riff_size : static_cast<std::uint32_t>(body.size()));
    put(file, body);
    return file;
}

Bytes pcm16(std::span<const float> samples) {
    Bytes bytes;
    for (const float sample : samples) {
        const float scaled = std::clamp(std::round(sample * 32768.0F), -32768.0F, 32767.0F);
        put16(bytes, static_cast<std::uint32_t>(static_cast<std::int32_t>(scaled)));
    }
    return bytes;
}

WavParts wav16(std::span<const float> interleaved, int rate, int channels) {
    WavParts wav;
    wav.rate = rate;
    wav.channels = channels;
    wav.samples = pcm16(interleaved);
    return wav;
}

TemporaryFile::TemporaryFile(std::span<const std::uint8_t> bytes, std::string_view name) {
    std::string pattern = (std::filesystem::temp_directory_path() / "wavepool-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = pattern;
    path_ = folder_ / name;
    write(bytes);
}

TemporaryFile::~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
}

void TemporaryFile::write(std::span<const std::uint8_t> bytes) const {
    // Overwritten in place: some file systems flush a file that is truncated and written again.
    std::ofstream(path_, std::ios::binary | std::ios::app).close();
    std::fstream out(path_, std::ios::binary | std::ios::in | std::ios::out);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    out.close();
    std::filesystem::resize_file(path_, bytes.size());
}

bool Decoded::warned(std::string_view code) const {
    return std::count(warnings.begin(), warnings.end(), code) == 1;
}

Decoded decode_all(AudioInput& input, std::int64_t step) {
    Decoded result;
    result.info = input.info();
    bool ended = false;
    while (!ended) {
        const auto at = static_cast<std::int64_t>(result.samples.size());
        ended = input.decode_until(at + step, CancelToken());
        const std::int64_t end = input.store()->end();
        result.samples.resize(static_cast<std::size_t>(end));
        input.store()->copy(at, std::span(result.samples).subspan(static_cast<std::size_t>(at)));
        input.store()->release_before(end);
    }
    for (const Warning& warning : input.warnings()) result.warnings.push_back(warning.code);
    return result;
}

Decoded decode(std::span<const std::uint8_t> bytes, std::string_view name) {
    const TemporaryFile file(bytes, name);
    return decode_all(*open_file(file.path()));
}

ErrorCode failure_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        EXPECT_FALSE(std::string_view(error.what()).empty());
        return error.code();
    }
    ADD_FAILURE() << "no error";
    return ErrorCode::kInternal;
}

ErrorCode failure_of_opening(std::span<const std::uint8_t> bytes, std::string_view name) {
    const TemporaryFile file(bytes, name);
    return failure_of([&] { (void)open_file(file.path()); });
}

Bytes read_file(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

std::filesystem::path speech_fixture(std::string_view name) {
    for (auto folder = std::filesystem::current_path();; folder = folder.parent_path()) {
        const auto candidate = folder / "test" / "fixtures" / "speech" / name;
        if (std::filesystem::exists(candidate)) return candidate;
        if (folder == folder.root_path())
            throw std::runtime_error("run the tests inside the repository: no test/fixtures above");
    }
}

}  // namespace wavepool::audio
