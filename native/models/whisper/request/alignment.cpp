#include "models/whisper/request/alignment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

namespace wavepool::whisper {
namespace {

constexpr std::size_t kMedianWidth = 7;

/// Scales the weights of each frame to mean 0 and deviation 1 over its tokens.
void normalize(std::span<float> weights, std::size_t tokens, std::size_t frames) {
    for (std::size_t frame = 0; frame < frames; ++frame) {
        double sum = 0;
        double squares = 0;
        for (std::size_t token = 0; token < tokens; ++token) {
            const double weight = weights[token * frames + frame];
            sum += weight;
            squares += weight * weight;
        }
        const auto count = static_cast<double>(tokens);
        const double mean = sum / count;
        const double deviation = std::sqrt(std::max(squares / count - mean * mean, 1e-20));
        for (std::size_t token = 0; token < tokens; ++token) {
            float& weight = weights[token * frames + frame];
            weight = static_cast<float>((weight - mean) / deviation);
        }
    }
}

/// The median around `frame`, mirrored at the ends.
float median(std::span<const float> row, std::size_t frame) {
    std::array<float, kMedianWidth> window{};
    const auto last = static_cast<std::int64_t>(row.size()) - 1;
    constexpr auto kReach = static_cast<std::int64_t>(kMedianWidth / 2);
    for (std::int64_t i = -kReach; i <= kReach; ++i) {
        std::int64_t at = std::abs(static_cast<std::int64_t>(frame) + i);
        if (at > last) at = 2 * last - at;
        window[static_cast<std::size_t>(i + kReach)] =
            row[static_cast<std::size_t>(std::clamp<std::int64_t>(at, 0, last))];
    }
    std::ranges::nth_element(window, window.begin() + kReach);
    return window[kReach];
}

/// The mean over all heads, for the tokens from `first` on.
std::vector<float> matrix(const Attention& attention, std::size_t first, std::size_t frames) {
    std::vector<float> sum((attention.tokens - first) * frames, 0.0F);
    std::vector<float> head(attention.tokens * frames);
    for (std::size_t index = 0; index < attention.heads; ++index) {
        for (std::size_t token = 0; token < attention.tokens; ++token) {
            const auto row = attention.weights.subspan(
                (index * attention.tokens + token) * attention.frames, frames);
            std::ranges::copy(row, head.begin() + static_cast<std::ptrdiff_t>(token * frames));
        }
        normalize(head, attention.tokens, frames);
        for (std::size_t token = first; token < attention.tokens; ++token) {
            const auto row = std::span(head).subspan(token * frames, frames);
            for (std::size_t frame = 0; frame < frames; ++frame) {
                sum[(token - first) * frames + frame] += median(row, frame);
            }
        }
    }
    return sum;
}

enum class Step : std::uint8_t { kBoth, kToken, kFrame };

/// The first column in each row of the path with the greatest sum.
std::vector<std::size_t> best_path(std::span<const float> values, std::size_t rows,
                                   std::size_t columns) {
    constexpr float kNever = std::numeric_limits<float>::infinity();
    std::vector<float> previous(columns + 1, kNever);
    std::vector<float> current(columns + 1, kNever);
    std::vector<Step> steps(rows * columns, Step::kFrame);
    previous[0] = 0;
    for (std::size_t row = 0; row < rows; ++row) {
        current[0] = kNever;
        for (std::size_t column = 0; column < columns; ++column) {
            const float both = previous[column];
            const float token = previous[column + 1];
            const float frame = current[column];
            Step step = Step::kFrame;
            if (both < token && both < frame) step = Step::kBoth;
            if (token < both && token < frame) step = Step::kToken;
            steps[row * columns + column] = step;
            const float before = step == Step::kBoth ? both : step == Step::kToken ? token : frame;
            current[column + 1] = before - values[row * columns + column];
        }
        std::swap(previous, current);
    }
    std::vector<std::size_t> begins(rows, 0);
    std::size_t row = rows - 1;
    std::size_t column = columns - 1;
    while (true) {
        begins[row] = column;
        if (row == 0 && column == 0) break;
        Step step = steps[row * columns + column];
        if (row == 0) step = Step::kFrame;
        if (column == 0) step = Step::kToken;
        if (step != Step::kFrame) --row;
        if (step != Step::kToken) --column;
    }
    return begins;
}

}  // namespace

std::vector<std::size_t> begin_frames(const Attention& attention, std::size_t first,
                                      std::size_t used_frames) {
    const std::size_t frames = std::clamp<std::size_t>(used_frames, 1, attention.frames);
    const std::vector<float> values = matrix(attention, first, frames);
    return best_path(values, attention.tokens - first, frames);
}

}  // namespace wavepool::whisper
