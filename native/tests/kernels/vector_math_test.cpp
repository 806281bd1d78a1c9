#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/vector_math.h"
#include "tests/support/gguf_builder.h"

namespace wavepool::kernels {
namespace {

/// Arguments from -10 to 10 in steps that are not round, and some close to 0.
std::vector<float> arguments() {
    std::vector<float> values;
    for (float x = -10.0F; x <= 10.0F; x += 0.00317F) values.push_back(x);
    for (float x = 1e-8F; x < 1; x *= 1.7F) values.insert(values.end(), {x, -x});
    return values;
}

TEST(VectorMath, TanhIsWithin3e7OfLibmAndKeepsSmallValues) {
    const std::vector<float> x = arguments();
    std::vector<float> y = x;
    tanh_in_place(y);
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double expected = std::tanh(static_cast<double>(x[i]));
        ASSERT_NEAR(y[i], expected, 3e-7) << x[i];
        ASSERT_NEAR(y[i], expected, 1e-6 * std::abs(expected)) << x[i];
    }
}

TEST(VectorMath, GeluOfTheSumWithABiasIsWithin1e6OfLibm) {
    const std::vector<float> x = arguments();
    for (const float bias : {0.0F, 0.75F}) {
        std::vector<float> y = x;
        add_gelu_in_place(y, std::vector<float>(x.size(), bias));
        for (std::size_t i = 0; i < x.size(); ++i) {
            const double sum = x[i] + bias;
            const double expected = 0.5 * sum * (1 + std::erf(sum / std::sqrt(2.0)));
            ASSERT_NEAR(y[i], expected, 1e-6) << sum;
        }
    }
}

TEST(VectorMath, AValueDoesNotDependOnItsPlaceInTheVector) {
    const std::vector<float> x = testing::noise(67, 3);
    std::vector<float> together = x;
    add_gelu_in_place(together, std::vector<float>(x.size(), 0.1F));
    std::vector<float> tanh_together = x;
    tanh_in_place(tanh_together);
    for (std::size_t i = 0; i < x.size(); ++i) {
        std::vector<float> alone{x[i]};
        add_gelu_in_place(alone, std::vector<float>{0.1F});
        EXPECT_EQ(alone[0], together[i]) << i;
        alone = {x[i]};
        tanh_in_place(alone);
        EXPECT_EQ(alone[0], tanh_together[i]) << i;
    }
}

TEST(VectorMath, SoftmaxWeighsTheFirstValuesAndZeroesThePadding) {
    constexpr std::size_t kPadded = 64;
    for (const std::size_t length : {1UL, 7UL, 8UL, 61UL, 64UL}) {
        std::vector<float> row = testing::noise(kPadded, 11);
        for (float& value : row) value *= 40;
        const std::vector<float> scores = row;
        double sum = 0;
        for (std::size_t i = 0; i < length; ++i) sum += std::exp(scores[i] / 6.0);
        softmax_in_place(row, length, 1.0F / 6.0F);
        for (std::size_t i = 0; i < length; ++i) {
            EXPECT_NEAR(row[i], std::exp(scores[i] / 6.0) / sum, 1e-6) << length << " " << i;
        }
        for (std::size_t i = length; i < kPadded; ++i) EXPECT_EQ(row[i], 0.0F) << length;
    }
}

TEST(VectorMath, ArgmaxIsTheFirstLargestValue) {
    std::vector<float> values(100, -1.0F);
    values[37] = values[38] = values[99] = 2.0F;
    EXPECT_EQ(argmax(values), 37);
    values[97] = 3.0F;
    EXPECT_EQ(argmax(values), 97);
    EXPECT_EQ(argmax_except(values, 97), 37);
    EXPECT_EQ(argmax_except(values, 0), 97);
    EXPECT_EQ(argmax_except(values, 99), 97);
    EXPECT_EQ(argmax(std::vector<float>(9, std::numeric_limits<float>::quiet_NaN())), 0);
}

}  // namespace
}  // namespace wavepool::kernels
