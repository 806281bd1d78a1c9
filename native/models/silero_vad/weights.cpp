#include "models/silero_vad/weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <numbers>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/error.h"

namespace wavepool::silero_vad {
namespace {

constexpr std::size_t kTaps = 3;
constexpr std::size_t kQuarter = kFrameSamples / 4;

struct TensorShape {
    std::string_view name;
    std::size_t rank;
    std::array<std::int64_t, 3> extents;

    [[nodiscard]] std::span<const std::int64_t> shape() const { return {extents.data(), rank}; }
};

constexpr std::array kTensors{
    TensorShape{"stft_conv.weight", 3, {2 * kBins, 1, kFrameSamples}},
    TensorShape{"conv1.weight", 3, {128, kBins, kTaps}},
    TensorShape{"conv1.bias", 1, {128}},
    TensorShape{"conv2.weight", 3, {64, 128, kTaps}},
    TensorShape{"conv2.bias", 1, {64}},
    TensorShape{"conv3.weight", 3, {64, 64, kTaps}},
    TensorShape{"conv3.bias", 1, {64}},
    TensorShape{"conv4.weight", 3, {128, 64, kTaps}},
    TensorShape{"conv4.bias", 1, {128}},
    TensorShape{"lstm_cell.weight_ih", 2, {kGates, kHidden}},
    TensorShape{"lstm_cell.weight_hh", 2, {kGates, kHidden}},
    TensorShape{"lstm_cell.bias_ih", 1, {kGates}},
    TensorShape{"lstm_cell.bias_hh", 1, {kGates}},
    TensorShape{"final_conv.weight", 3, {1, kHidden, 1}},
    TensorShape{"final_conv.bias", 1, {1}},
};

std::vector<float> read(const TensorSource& source, std::string_view name) {
    return source.f32(name, std::ranges::find(kTensors, name, &TensorShape::name)->shape());
}

void expect(const TensorSource& source, std::string_view key, std::size_t value) {
    const std::int64_t found = source.integer(key);
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
std::array<float, kFrameSamples> read_frame_window(const TensorSource& source) {
    const std::vector<float> basis = read(source, "stft_conv.weight");
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

PackedMatrix pack_convolution(const TensorSource& source, const Convolution& conv) {
    const std::vector<float> weights = read(source, conv.name + ".weight");
    const std::vector<float> bias = read(source, conv.name + ".bias");
    std::vector<float> rows;
    rows.reserve(conv.outputs * conv.taps * conv.inputs);
    for (std::size_t output = 0; output < conv.outputs; ++output) {
        for (std::size_t tap = conv.first_tap; tap < conv.first_tap + conv.taps; ++tap) {
            for (std::size_t channel = 0; channel < conv.inputs; ++channel)
                rows.push_back(weights[(output * conv.inputs + channel) * kTaps + tap]);
        }
    }
    return {rows, bias, conv.taps * conv.inputs};
}

/// G of Winograd's F(4, 3) at 0, 1, -1, 2, -2 and infinity: from taps to points.
constexpr std::array<std::array<double, kTaps>, kPoints> kFromTaps{{
    {1.0 / 4, 0, 0},
    {-1.0 / 6, -1.0 / 6, -1.0 / 6},
    {-1.0 / 6, 1.0 / 6, -1.0 / 6},
    {1.0 / 24, 1.0 / 12, 1.0 / 6},
    {1.0 / 24, -1.0 / 12, 1.0 / 6},
    {0, 0, 1},
}};

/// The bias comes once: in a point that all four frames take with factor 1.
std::array<PackedMatrix, kPoints> pack_points(const TensorSource& source,
                                              std::span<const std::size_t> channels) {
    constexpr std::size_t kBiasPoint = 1;
    const std::vector<float> weights = read(source, "conv1.weight");
    const std::vector<float> bias = read(source, "conv1.bias");
    std::array<PackedMatrix, kPoints> points;
    for (std::size_t point = 0; point < kPoints; ++point) {
        std::vector<float> rows;
        rows.reserve(bias.size() * kBins);
        for (std::size_t output = 0; output < bias.size(); ++output) {
            for (const std::size_t channel : channels) {
                const float* taps = &weights[(output * kBins + channel) * kTaps];
                rows.push_back(static_cast<float>(
                    std::inner_product(taps, taps + kTaps, kFromTaps[point].begin(), 0.0)));
            }
        }
        points[point] = {rows, point == kBiasPoint ? bias : std::vector<float>(bias.size(), 0.0F),
                         kBins};
    }
    return points;
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
    for (const PackedMatrix* matrix : {&cosine_odd, &cosine_even, &sine_odd, &sine_even, &conv2,
                                       &conv3, &conv4, &lstm_input, &lstm_hidden})
        total += matrix->bytes();
    for (const PackedMatrix& matrix : conv1) total += matrix.bytes();
    return total;
}

std::size_t weight_bytes() noexcept {
    constexpr std::size_t kHalf = kQuarter + 1;
    std::size_t total = sizeof(Weights) + kPoints * PackedMatrix::bytes(128, kBins);
    for (const auto& [outputs, inputs] : std::initializer_list<std::pair<std::size_t, std::size_t>>{
             {kQuarter, kQuarter},  // the four transforms
             {kHalf, kHalf},
             {kQuarter, kQuarter},
             {kQuarter, kQuarter - 1},
             {64, kTaps * 128},  // the convolutions but the first
             {64, 2 * 64},
             {128, 64},
             {kGates, kHidden},  // the LSTM
             {kGates, kHidden}}) {
        total += PackedMatrix::bytes(outputs, inputs);
    }
    return total;
}

bool has_weights(const TensorSource& source) {
    return std::ranges::all_of(
        kTensors, [&](const TensorShape& tensor) { return source.find(tensor.name).has_value(); });
}

void check_weights(const TensorSource& source) {
    if (source.metadata("general.architecture")) {
        if (source.string("general.architecture") != "silero-vad") {
            throw Error(ErrorCode::kModelFileInvalid, "general.architecture is not silero-vad");
        }
        expect(source, "silero.sample_rate", 16000);
        expect(source, "silero.window", kWindowSamples);
        expect(source, "silero.context", kContextSamples);
    }
    for (const TensorShape& tensor : kTensors) source.expect(tensor.name, tensor.shape());
}

Weights load_weights(const TensorSource& source) {
    check_weights(source);
    Weights weights;
    weights.frame_window = read_frame_window(source);
    weights.cosine_odd = pack_transform(cosine, 1, kQuarter, 0, kQuarter);
    weights.cosine_even = pack_transform(cosine, 0, kQuarter + 1, 0, kQuarter + 1);
    weights.sine_odd = pack_transform(sine, 1, kQuarter, 1, kQuarter);
    weights.sine_even = pack_transform(sine, 0, kQuarter, 1, kQuarter - 1);

    weights.conv1 = pack_points(source, bin_order());
    weights.conv2 = pack_convolution(source, {"conv2", 64, 128, 0, kTaps});
    weights.conv3 = pack_convolution(source, {"conv3", 64, 64, 1, 2});
    weights.conv4 = pack_convolution(source, {"conv4", 128, 64, 1, 1});

    std::vector<float> bias = read(source, "lstm_cell.bias_ih");
    const std::vector<float> hidden_bias = read(source, "lstm_cell.bias_hh");
    std::transform(bias.begin(), bias.end(), hidden_bias.begin(), bias.begin(), std::plus<>());
    weights.lstm_input = {read(source, "lstm_cell.weight_ih"), bias, kHidden};
    weights.lstm_hidden = {read(source, "lstm_cell.weight_hh"), std::vector<float>(kGates, 0.0F),
                           kHidden};
    const std::vector<float> output = read(source, "final_conv.weight");
    std::copy(output.begin(), output.end(), weights.output.begin());
    weights.output_bias = read(source, "final_conv.bias").front();
    return weights;
}

}  // namespace wavepool::silero_vad
