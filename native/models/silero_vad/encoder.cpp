#include "models/silero_vad/encoder.h"

#include <array>
#include <cmath>

#include "kernels/float8.h"

namespace wavepool::silero_vad {

using namespace kernels;

namespace {

constexpr std::size_t kHalf = kFrameSamples / 2;
constexpr std::size_t kQuarter = kFrameSamples / 4;

// A folded frame: four blocks, one for each of the transform's matrices.
constexpr std::size_t kBlock = kQuarter + 8;  // samples 0…64, then filling
constexpr std::size_t kFoldedCosineOdd = 0;
constexpr std::size_t kFoldedCosineEven = kBlock;
constexpr std::size_t kFoldedSineOdd = 2 * kBlock;
constexpr std::size_t kFoldedSineEven = 3 * kBlock;
constexpr std::size_t kFolded = 4 * kBlock;

// A spectrum: real parts of the odd and of the even bins (a whole number of tiles), then imaginary.
constexpr std::size_t kRealOdd = 0;
constexpr std::size_t kRealEven = kQuarter;
constexpr std::size_t kNyquist = 2 * kQuarter;
constexpr std::size_t kImaginaryOdd = kNyquist + kTileOutputs;
constexpr std::size_t kImaginaryEven = kImaginaryOdd + kQuarter;
constexpr std::size_t kSpectrum = kImaginaryEven + kQuarter;

/// Of the magnitudes of a frame; filled up with zeros.
constexpr std::size_t kBinStride = (kBins + 7) / 8 * 8;
constexpr std::size_t kConv1 = 128;
constexpr std::size_t kConv2 = 64;
constexpr std::size_t kConv3 = 64;
constexpr std::size_t kConv4 = 128;

/// frame[i] ± frame[256 - i], then the same at the quarter: what the cosines of odd and even bins
/// and the sines of odd and even bins see.
void fold(const float* samples, const float* window, float* folded) noexcept {
    // One beyond the frame: the partner of sample 0, whose window is 0.
    std::array<float, kFrameSamples + 8> frame;
    for (std::size_t i = 0; i < kFrameSamples; i += 8)
        store(&frame[i], load(samples + i) * load(window + i));
    frame[kFrameSamples] = 0;

    std::array<float, kHalf + 8> even;  // under the cosines
    std::array<float, kHalf + 8> odd;   // under the sines
    for (std::size_t i = 0; i < kHalf; i += 8) {
        const Float8 left = load(&frame[i]);
        const Float8 right = reverse(load(&frame[kFrameSamples - 7 - i]));
        store(&even[i], left + right);
        store(&odd[i], left - right);
    }
    even[kHalf] = frame[kHalf];
    odd[kHalf] = 0;

    for (std::size_t i = 0; i < kQuarter; i += 8) {
        const Float8 even_left = load(&even[i]);
        const Float8 even_right = reverse(load(&even[kHalf - 7 - i]));
        const Float8 odd_left = load(&odd[i]);
        const Float8 odd_right = reverse(load(&odd[kHalf - 7 - i]));
        store(folded + kFoldedCosineOdd + i, even_left - even_right);
        store(folded + kFoldedCosineEven + i, even_left + even_right);
        store(folded + kFoldedSineOdd + i, odd_left + odd_right);
        store(folded + kFoldedSineEven + i, odd_left - odd_right);
    }
    folded[kFoldedCosineEven + kQuarter] = even[kQuarter];
    folded[kFoldedSineOdd + kQuarter] = odd[kQuarter];
}

/// What the first convolution sees of a window's magnitudes: B transposed of Winograd's F(4, 3), of
/// the four frames and one frame of zeros on either side.
void to_points(const float* magnitudes, float* points) noexcept {
    for (std::size_t i = 0; i < kBinStride; i += 8) {
        const Float8 x0 = load(magnitudes + i);
        const Float8 x1 = load(magnitudes + kBinStride + i);
        const Float8 x2 = load(magnitudes + 2 * kBinStride + i);
        const Float8 x3 = load(magnitudes + 3 * kBinStride + i);
        const auto write = [&](std::size_t point, float factor, Float8 a, Float8 b) {
            store(points + point * kBinStride + i, fused(broadcast(factor), a, b));
        };
        write(0, -5, x1, x3);
        write(1, -4, x0 + x1, x2 + x3);
        write(2, 4, x0 - x1, x3 - x2);
        write(3, 2, x2 - x0, x3 - x1);
        write(4, 2, x0 - x2, x3 - x1);
        write(5, -5, x2, broadcast(4) * x0);
    }
}

/// The rectified outputs of its four frames: A transposed.
void from_points(const float* products, float* outputs) noexcept {
    const Float8 zero = broadcast(0);
    for (std::size_t i = 0; i < kConv1; i += 8) {
        const auto product = [&](std::size_t point) { return load(products + point * kConv1 + i); };
        const auto write = [&](std::size_t frame, Float8 value) {
            store(outputs + frame * kConv1 + i, larger(value, zero));
        };
        const Float8 even1 = product(1) + product(2);
        const Float8 odd1 = product(1) - product(2);
        const Float8 even2 = product(3) + product(4);
        const Float8 odd2 = product(3) - product(4);
        write(0, product(0) + even1 + even2);
        write(1, fused(broadcast(2), odd2, odd1));
        write(2, fused(broadcast(4), even2, even1));
        write(3, fused(broadcast(8), odd2, odd1) + product(5));
    }
}

Product whole(const PackedMatrix& matrix) noexcept { return {.inputs = matrix.inputs()}; }

/// Of a layer that sees another layer's rectified outputs and rectifies its own.
Product inner(const PackedMatrix& matrix) noexcept {
    return {.inputs = matrix.inputs(), .rectified = true, .rectify = true};
}

}  // namespace

Encoder::Encoder()
    : samples_(kMaxWindows * kSamples),
      folded_(kMaxWindows * kFolded),
      spectrum_(kMaxWindows * kSpectrum),
      magnitudes_(kMaxWindows * kFrames * kBinStride),
      points_(kMaxWindows * kPoints * kBinStride),
      products_(kMaxWindows * kPoints * kConv1),
      conv1_(kMaxWindows * kFrames * kConv1),
      conv2_(kMaxWindows * 2 * kConv2),
      conv3_(kMaxWindows * kConv3),
      conv4_(kMaxWindows * kConv4) {}

std::size_t Encoder::bytes() noexcept {
    constexpr std::size_t kWindowFloats = kSamples + kFolded + kSpectrum + kFrames * kBinStride +
                                          kPoints * (kBinStride + kConv1) + kFrames * kConv1 +
                                          2 * kConv2 + kConv3 + kConv4;
    return kMaxWindows * kWindowFloats * sizeof(float);
}

void Encoder::fold_frame(const Weights& weights, std::size_t frame, std::size_t count) noexcept {
    for (std::size_t w = 0; w < count; ++w) {
        fold(samples_.data() + w * kSamples + frame * kHopSamples, weights.frame_window.data(),
             folded_.data() + w * kFolded);
    }
}

void Encoder::transform_frame(const Weights& weights, std::size_t frame,
                              std::size_t count) noexcept {
    const auto transform = [&](const PackedMatrix& matrix, std::size_t from, std::size_t to) {
        multiply(matrix, whole(matrix), {folded_.data() + from, kFolded},
                 {spectrum_.data() + to, kSpectrum}, count);
    };
    transform(weights.cosine_odd, kFoldedCosineOdd, kRealOdd);
    transform(weights.cosine_even, kFoldedCosineEven, kRealEven);
    transform(weights.sine_odd, kFoldedSineOdd + 1, kImaginaryOdd);
    transform(weights.sine_even, kFoldedSineEven + 1, kImaginaryEven);

    for (std::size_t w = 0; w < count; ++w) {
        const float* spectrum = spectrum_.data() + w * kSpectrum;
        float* magnitude = magnitudes_.data() + (w * kFrames + frame) * kBinStride;
        for (std::size_t i = 0; i < kNyquist; i += 8) {
            const Float8 real = load(spectrum + kRealOdd + i);
            const Float8 imaginary = load(spectrum + kImaginaryOdd + i);
            store(magnitude + i, square_root(fused(real, real, imaginary * imaginary)));
        }
        magnitude[kNyquist] = std::abs(spectrum[kNyquist]);
    }
}

void Encoder::convolve_frames(const Weights& weights, std::size_t count) noexcept {
    constexpr std::size_t kInputs = kPoints * kBinStride;
    constexpr std::size_t kOutputs = kPoints * kConv1;
    for (std::size_t w = 0; w < count; ++w)
        to_points(magnitudes_.data() + w * kFrames * kBinStride, points_.data() + w * kInputs);
    for (std::size_t point = 0; point < kPoints; ++point) {
        multiply(weights.conv1[point], whole(weights.conv1[point]),
                 {points_.data() + point * kBinStride, kInputs},
                 {products_.data() + point * kConv1, kOutputs}, count);
    }
    for (std::size_t w = 0; w < count; ++w)
        from_points(products_.data() + w * kOutputs, conv1_.data() + w * kFrames * kConv1);
}

void Encoder::run(const Weights& weights, std::size_t count, Columns gates) noexcept {
    for (std::size_t w = 0; w < count; ++w) {
        float* end = samples_.data() + w * kSamples + kInputSamples;
        for (std::size_t i = 0; i < kMirrored; ++i) end[i] = *(end - 2 - i);
    }
    for (std::size_t frame = 0; frame < kFrames; ++frame) {
        fold_frame(weights, frame, count);
        transform_frame(weights, frame, count);
    }

    convolve_frames(weights, count);
    constexpr std::size_t kConv1Stride = kFrames * kConv1;
    // Stride 2: outputs at frames 0 (taps 1 and 2) and 2 (all taps).
    multiply(weights.conv2,
             {.first_input = kConv1, .inputs = 2 * kConv1, .rectified = true, .rectify = true},
             {conv1_.data(), kConv1Stride}, {conv2_.data(), 2 * kConv2}, count);
    multiply(weights.conv2, inner(weights.conv2), {conv1_.data() + kConv1, kConv1Stride},
             {conv2_.data() + kConv2, 2 * kConv2}, count);
    multiply(weights.conv3, inner(weights.conv3), {conv2_.data(), 2 * kConv2},
             {conv3_.data(), kConv3}, count);
    multiply(weights.conv4, inner(weights.conv4), {conv3_.data(), kConv3}, {conv4_.data(), kConv4},
             count);
    multiply(weights.lstm_input, {.inputs = kConv4, .rectified = true}, {conv4_.data(), kConv4},
             gates, count);
}

}  // namespace wavepool::silero_vad
