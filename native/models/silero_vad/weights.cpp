#include "models/silero_vad/weights.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <numbers>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/error.h"

namespace wavepool::silero_vad {
namespace {

constexpr std::size_t kTaps = 3;
constexpr std::size_t kQuarter = kFrameSamples / 4;

std::vector<float> read(const GgufFile& file, std::string_view name,
                        std::initializer_list<std::int64_t> shape) {
    std::vector<float> values = file.f32(name, std::span(shape.begin(), shape.size()));
    if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) {
        throw Error(ErrorCode::kModelFileInvalid,
                    "tensor " + std::string(name) + " holds a value that is not finite");
    }
    return values;
}

void expect(const GgufFile& file, std::string_view key, std::size_t value) {
    const std::int64_t found = file.integer(key);
    if (found != static_cast<std::int64_t>(value)) {
        throw Error(ErrorCode::kModelFileInvalid, std::string(key) + " is " +
                                                      std::to_string(found) + ", expected " +
                                                      std::to_string(value));
    }
}

double angle(std::size_t bin, std::size_t sample) {
    return 2 * std::numbers::pi * static_cast<double>(bin * sample % kFrameSamples) / kFrameSamples;
}

/// Real rows of bins 0…128, then imaginary ones. The real row of bin 0 is the window itself.
std::array<float, kFrameSamples> read_frame_window(const GgufFile& file) {
    const std::vector<float> basis = read(file, "stft_conv.weight", {2 * kBins, 1, kFrameSamples});
    std::array<float, kFrameSamples> window{};
    std::copy_n(basis.begin(), kFrameSamples, window.begin());
    constexpr double kTolerance = 1e-6;
    for (std::size_t bin = 0; bin < kBins; ++bin) {
        for (std::size_t i = 0; i < kFrameSamples; ++i) {
            const double real = window[i] * std::cos(angle(bin, i));
            const double imaginary = -window[i] * std::sin(angle(bin, i));
            if (std::abs(real - basis[bin * kFrameSamples + i]) > kTolerance ||
                std::abs(imaginary - basis[(kBins + bin) * kFrameSamples + i]) > kTolerance) {
                throw Error(ErrorCode::kModelFileInvalid,
                            "stft_conv.weight is not a windowed discrete Fourier transform");
            }
        }
    }
    return window;
}

/// Rows of function(angle) for bins first_bin, first_bin + 2, … and samples first_sample, ….
PackedMatrix pack_transform(double (*function)(double), std::size_t first_bin, std::size_t bins,
                            std::size_t first_sample, std::size_t samples) {
    std::vector<float> rows;
    rows.reserve(bins * samples);
    for (std::size_t row = 0; row < bins; ++row) {
        for (std::size_t i = 0; i < samples; ++i) {
            rows.push_back(
                static_cast<float>(function(angle(first_bin + 2 * row, first_sample + i))));
        }
    }
    return {rows, std::vector<float>(bins, 0.0F), samples};
}

double cosine(double x) { return std::cos(x); }
double sine(double x) { return std::sin(x); }

struct Convolution {
    std::string name;
    std::size_t outputs;
    std::size_t inputs;
    std::size_t first_tap;
    std::size_t taps;
};

/// `channels[i]` is the file's channel that comes as input i.
PackedMatrix pack_convolution(const GgufFile& file, const Convolution& conv,
                              std::span<const std::size_t> channels) {
    const std::vector<float> weights = read(
        file, conv.name + ".weight",
        {static_cast<std::int64_t>(conv.outputs), static_cast<std::int64_t>(conv.inputs), kTaps});
    const std::vector<float> bias =
        read(file, conv.name + ".bias", {static_cast<std::int64_t>(conv.outputs)});
    std::vector<float> rows;
    rows.reserve(conv.outputs * conv.taps * conv.inputs);
    for (std::size_t output = 0; output < conv.outputs; ++output) {
        for (std::size_t tap = conv.first_tap; tap < conv.first_tap + conv.taps; ++tap) {
            for (const std::size_t channel : channels)
                rows.push_back(weights[(output * conv.inputs + channel) * kTaps + tap]);
        }
    }
    return {rows, bias, conv.taps * conv.inputs};
}

PackedMatrix pack_convolution(const GgufFile& file, const Convolution& conv) {
    std::vector<std::size_t> channels(conv.inputs);
    std::iota(channels.begin(), channels.end(), std::size_t{0});
    return pack_convolution(file, conv, channels);
}

/// Odd bins, then even ones: the order in which the transform writes them.
std::vector<std::size_t> bin_order() {
    std::vector<std::size_t> order;
    for (std::size_t bin = 1; bin < kBins; bin += 2) order.push_back(bin);
    for (std::size_t bin = 0; bin < kBins; bin += 2) order.push_back(bin);
    return order;
}

}  // namespace

std::size_t Weights::bytes() const noexcept {
    std::size_t total = sizeof(Weights);
    for (const PackedMatrix* matrix : {&cosine_odd, &cosine_even, &sine_odd, &sine_even, &conv1,
                                       &conv2, &conv3, &conv4, &lstm_input, &lstm_hidden})
        total += matrix->bytes();
    return total;
}

Weights load_weights(const GgufFile& file) {
    if (file.string("general.architecture") != "silero-vad")
        throw Error(ErrorCode::kModelFileInvalid, "general.architecture is not silero-vad");
    expect(file, "silero.sample_rate", 16000);
    expect(file, "silero.window", kWindowSamples);
    expect(file, "silero.context", kContextSamples);

    Weights weights;
    weights.frame_window = read_frame_window(file);
    weights.cosine_odd = pack_transform(cosine, 1, kQuarter, 0, kQuarter);
    weights.cosine_even = pack_transform(cosine, 0, kQuarter + 1, 0, kQuarter + 1);
    weights.sine_odd = pack_transform(sine, 1, kQuarter, 1, kQuarter);
    weights.sine_even = pack_transform(sine, 0, kQuarter, 1, kQuarter - 1);

    weights.conv1 = pack_convolution(file, {"conv1", 128, kBins, 0, kTaps}, bin_order());
    weights.conv2 = pack_convolution(file, {"conv2", 64, 128, 0, kTaps});
    weights.conv3 = pack_convolution(file, {"conv3", 64, 64, 1, 2});
    weights.conv4 = pack_convolution(file, {"conv4", 128, 64, 1, 1});

    std::vector<float> bias = read(file, "lstm_cell.bias_ih", {kGates});
    const std::vector<float> hidden_bias = read(file, "lstm_cell.bias_hh", {kGates});
    std::transform(bias.begin(), bias.end(), hidden_bias.begin(), bias.begin(), std::plus<>());
    weights.lstm_input = {read(file, "lstm_cell.weight_ih", {kGates, kHidden}), bias, kHidden};
    weights.lstm_hidden = {read(file, "lstm_cell.weight_hh", {kGates, kHidden}),
                           std::vector<float>(kGates, 0.0F), kHidden};
    const std::vector<float> output = read(file, "final_conv.weight", {1, kHidden, 1});
    std::copy(output.begin(), output.end(), weights.output.begin());
    weights.output_bias = read(file, "final_conv.bias", {1}).front();
    return weights;
}

}  // namespace wavepool::silero_vad
