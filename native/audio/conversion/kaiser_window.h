#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace wavepool::audio {

/// The Kaiser window over [-1, 1], for windowed-sinc filters. It is read from a table because
/// filters have up to half a million points.
class KaiserWindow {
  public:
    /// `attenuation` is the attenuation of the filter's stop band, in dB.
    explicit KaiserWindow(double attenuation) {
        const double beta = 0.1102 * (attenuation - 8.7);
        for (std::size_t i = 0; i < values_.size(); ++i) {
            const double x = std::min(1.0, static_cast<double>(i) / kSteps);
            values_[i] = bessel_i0(beta * std::sqrt(1 - x * x)) / bessel_i0(beta);
        }
    }

    [[nodiscard]] double operator()(double x) const {
        const double at = std::abs(x) * kSteps;
        if (at >= kSteps) return 0;
        const auto index = static_cast<std::size_t>(at);
        const double rest = at - static_cast<double>(index);
        return values_[index] + rest * (values_[index + 1] - values_[index]);
    }

    /// Half the number of points that a filter needs, one less: `transition` in radians per sample.
    [[nodiscard]] static double half_width(double attenuation, double transition) {
        return (attenuation - 7.95) / (2.285 * transition) / 2;
    }

  private:
    // Modified Bessel function of the first kind, order zero.
    static double bessel_i0(double x) {
        double sum = 1;
        double term = 1;
        for (int k = 1; term > sum * 1e-12; ++k) {
            term *= (x / (2 * k)) * (x / (2 * k));
            sum += term;
        }
        return sum;
    }

    static constexpr std::size_t kSteps = 4096;
    std::array<double, kSteps + 2> values_{};
};

inline double sinc(double x) {
    return std::abs(x) < 1e-9 ? 1.0 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x);
}

}  // namespace wavepool::audio
