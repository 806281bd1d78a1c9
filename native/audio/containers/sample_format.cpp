#include "audio/containers/sample_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace wavepool::audio {
namespace {

// Keeps squares and sums of them finite.
constexpr float kMaxMagnitude = 1e6F;

template <typename T>
T load(const std::uint8_t* bytes) noexcept {
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
    T value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

float sane(double value) noexcept {
    if (std::isnan(value)) return 0.0F;
    return static_cast<float>(std::clamp<double>(value, -kMaxMagnitude, kMaxMagnitude));
}

// ITU-T G.711: sign, three bits of exponent, four of mantissa, stored inverted.
constexpr float mu_law(std::uint8_t code) {
    const int bits = ~code & 0xFF;
    const int magnitude = ((((bits & 0x0F) << 3) + 0x84) << ((bits >> 4) & 7)) - 0x84;
    return static_cast<float>((bits & 0x80) != 0 ? -magnitude : magnitude) / 32768.0F;
}

// ITU-T G.711: the same layout, even bits inverted, a linear first segment.
constexpr float a_law(std::uint8_t code) {
    const int bits = code ^ 0x55;
    const int exponent = (bits >> 4) & 7;
    int magnitude = ((bits & 0x0F) << 4) + 8;
    if (exponent > 0) magnitude = (magnitude + 0x100) << (exponent - 1);
    return static_cast<float>((bits & 0x80) != 0 ? magnitude : -magnitude) / 32768.0F;
}

template <float (*Decode)(std::uint8_t)>
constexpr std::array<float, 256> table() {
    std::array<float, 256> values{};
    for (int code = 0; code < 256; ++code)
        values[static_cast<std::size_t>(code)] = Decode(static_cast<std::uint8_t>(code));
    return values;
}

constexpr auto kMuLawTable = table<mu_law>();
constexpr auto kALawTable = table<a_law>();

template <std::size_t Size, typename Convert>
void convert_each(const std::uint8_t* bytes, std::span<float> out, Convert convert) noexcept {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = convert(bytes + i * Size);
}

}  // namespace

std::size_t bytes_per_sample(SampleFormat format) noexcept {
    switch (format) {
        case SampleFormat::kU8:
        case SampleFormat::kALaw:
        case SampleFormat::kMuLaw:
            return 1;
        case SampleFormat::kS16:
            return 2;
        case SampleFormat::kS24:
            return 3;
        case SampleFormat::kS32:
        case SampleFormat::kF32:
            return 4;
        case SampleFormat::kF64:
            return 8;
    }
    return 0;
}

const char* codec_name(SampleFormat format) noexcept {
    switch (format) {
        case SampleFormat::kU8:
            return "pcm_u8";
        case SampleFormat::kS16:
            return "pcm_s16le";
        case SampleFormat::kS24:
            return "pcm_s24le";
        case SampleFormat::kS32:
            return "pcm_s32le";
        case SampleFormat::kF32:
            return "pcm_f32le";
        case SampleFormat::kF64:
            return "pcm_f64le";
        case SampleFormat::kALaw:
            return "pcm_alaw";
        case SampleFormat::kMuLaw:
            return "pcm_mulaw";
    }
    return "";
}

void convert_samples(SampleFormat format, std::span<const std::uint8_t> bytes,
                     std::span<float> out) noexcept {
    const std::uint8_t* from = bytes.data();
    switch (format) {
        case SampleFormat::kU8:
            return convert_each<1>(from, out, [](const std::uint8_t* at) {
                return static_cast<float>(*at - 128) / 128.0F;
            });
        case SampleFormat::kS16:
            return convert_each<2>(from, out, [](const std::uint8_t* at) {
                return static_cast<float>(load<std::int16_t>(at)) / 32768.0F;
            });
        case SampleFormat::kS24:
            return convert_each<3>(from, out, [](const std::uint8_t* at) {
                const auto value = static_cast<std::int32_t>(std::uint32_t{at[0]} << 8 |
                                                             std::uint32_t{at[1]} << 16 |
                                                             std::uint32_t{at[2]} << 24);
                return static_cast<float>(value >> 8) / 8388608.0F;
            });
        case SampleFormat::kS32:
            return convert_each<4>(from, out, [](const std::uint8_t* at) {
                return static_cast<float>(load<std::int32_t>(at)) / 2147483648.0F;
            });
        case SampleFormat::kF32:
            return convert_each<4>(from, out, [](const std::uint8_t* at) {
                return sane(static_cast<double>(load<float>(at)));
            });
        case SampleFormat::kF64:
            return convert_each<8>(from, out,
                                   [](const std::uint8_t* at) { return sane(load<double>(at)); });
        case SampleFormat::kALaw:
            return convert_each<1>(from, out,
                                   [](const std::uint8_t* at) { return kALawTable[*at]; });
        case SampleFormat::kMuLaw:
            return convert_each<1>(from, out,
                                   [](const std::uint8_t* at) { return kMuLawTable[*at]; });
    }
}

}  // namespace wavepool::audio
