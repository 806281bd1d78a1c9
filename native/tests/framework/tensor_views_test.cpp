#include "framework/tensors/tensor_views.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_code.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/safetensors_builder.h"

namespace wavepool {
namespace {

using testing::code_thrown_by;
using testing::GgufBuilder;
using testing::SafetensorsBuilder;
using testing::TemporaryFolder;
using Shape = std::vector<std::int64_t>;
using Names = std::vector<std::string>;

class TensorViews : public ::testing::Test {
  protected:
    std::shared_ptr<const TensorSource> open(const SafetensorsBuilder& builder,
                                             bool synchronized = false) {
        return open_tensor_source(folder_.write(std::to_string(files_++), builder.bytes()),
                                  {.synchronized = synchronized});
    }
    TemporaryFolder folder_;
    int files_ = 0;
};

// T3
TEST_F(TensorViews, APrefixViewStripsTheNamespaceOfAPackedFileAndScalarsKeepRankZero) {
    const auto packed = folder_.write("packed.gguf", GgufBuilder()
                                                         .string("general.name", "packed")
                                                         .f32("vad.scale", {}, {3})
                                                         .f32("vad.weight", {2}, {1, 2})
                                                         .f32("vadx", {1}, {8})
                                                         .f32("asr.weight", {1}, {9})
                                                         .bytes());
    const auto view = make_prefix_view(open_tensor_source(packed), "vad.");
    EXPECT_EQ(view->names(), (Names{"scale", "weight"}));
    EXPECT_EQ(view->find("scale")->shape, Shape{});
    EXPECT_EQ(view->scalar("scale"), 3);
    EXPECT_EQ(view->f32("scale", Shape{}), std::vector<float>{3});
    EXPECT_EQ(view->f32("weight", Shape{2}), (std::vector<float>{1, 2}));
    EXPECT_EQ(view->string("general.name"), "packed");
    EXPECT_FALSE(view->find("vad.weight").has_value());
    EXPECT_EQ(code_thrown_by([&] { (void)view->stored("asr.weight"); }), "MODEL_FILE_INVALID");
}

TEST_F(TensorViews, APrefixViewFindsTheScalesOfItsIntegers) {
    const auto source = open(SafetensorsBuilder()
                                 .tensor("p.q", {2}, "I8", "\x02\x04")
                                 .f32("p.q.scale", {1}, {0.5F})
                                 .f32("p.q.offset", {1}, {1})
                                 .f32("q.scale", {1}, {100}));
    EXPECT_EQ(make_prefix_view(source, "p.")->f32("q", Shape{2}), (std::vector<float>{2, 3}));
}

TEST_F(TensorViews, AFoldedViewShowsWeightNormAsTheWeight) {
    const auto source = open(SafetensorsBuilder()
                                 .f32("conv.weight_g", {2, 1, 1}, {10, 2})
                                 .f32("conv.weight_v", {2, 1, 2}, {3, 4, 0, -1})
                                 .f32("up.parametrizations.weight.original0", {1, 1}, {5})
                                 .f32("up.parametrizations.weight.original1", {1, 2}, {0, 2})
                                 .f32("lone_g", {1}, {7}));
    const auto view = make_folded_view(source);
    EXPECT_EQ(view->names(), (Names{"conv.weight", "lone_g", "up.weight"}));
    EXPECT_EQ(view->f32("conv.weight", Shape{2, 1, 2}), (std::vector<float>{6, 8, 0, -2}));
    EXPECT_EQ(view->f32("up.weight", Shape{1, 2}), (std::vector<float>{0, 5}));
    EXPECT_EQ(view->scalar("lone_g"), 7);
    EXPECT_FALSE(view->find("conv.weight_g").has_value());
    EXPECT_EQ(code_thrown_by([&] { (void)view->stored("conv.weight_v"); }), "MODEL_FILE_INVALID");
    // The fold is of the same bytes after the storage has been released.
    view->release_storage();
    EXPECT_EQ(view->f32("conv.weight", Shape{2, 1, 2}), (std::vector<float>{6, 8, 0, -2}));
}

TEST_F(TensorViews, AFoldedViewRefusesPairsThatDoNotBelongTogether) {
    const auto folded = [&](const SafetensorsBuilder& builder) {
        return code_thrown_by([&] { (void)make_folded_view(open(builder)); });
    };
    const auto pair = [](Shape magnitude, std::vector<float> values) {
        return SafetensorsBuilder().f32("w_g", magnitude, values).f32("w_v", {2, 2}, {1, 2, 3, 4});
    };
    EXPECT_EQ(folded(pair({2}, {1, 1})), "nothing");
    EXPECT_EQ(folded(pair({3}, {1, 1, 1})), "MODEL_FILE_INVALID");
    EXPECT_EQ(folded(pair({2, 2}, {1, 1, 1, 1})), "MODEL_FILE_INVALID");
    EXPECT_EQ(folded(pair({}, {1})), "MODEL_FILE_INVALID");
    EXPECT_EQ(folded(pair({2}, {1, 1}).f32("w", {1}, {1})), "MODEL_FILE_INVALID");
    const auto zero = make_folded_view(
        open(SafetensorsBuilder().f32("w_g", {1}, {1}).f32("w_v", {1, 2}, {0, 0})));
    EXPECT_EQ(code_thrown_by([&] { (void)zero->f32("w", Shape{1, 2}); }), "MODEL_FILE_INVALID");
}

TEST_F(TensorViews, ACompositeShowsSeveralSourcesAsOneAndAnyViewStacks) {
    const auto left = open(
        SafetensorsBuilder().metadata("k", "left").f32("p.a_g", {1}, {2}).f32("p.a_v", {1}, {4}));
    const auto right =
        open(SafetensorsBuilder().metadata("k", "right").metadata("m", "n").f32("b", {1}, {3}));
    const auto view = make_composite_view({make_folded_view(make_prefix_view(left, "p.")), right});
    EXPECT_EQ(view->names(), (Names{"a", "b"}));
    EXPECT_EQ(view->scalar("a"), 2);
    EXPECT_EQ(view->scalar("b"), 3);
    EXPECT_EQ(view->string("k"), "left") << "the first source's";
    EXPECT_EQ(view->string("m"), "n");
    view->release_storage();
    EXPECT_EQ(view->scalar("b"), 3);
    EXPECT_EQ(code_thrown_by([&] { (void)make_composite_view({right, right}); }),
              "MODEL_FILE_INVALID");
    EXPECT_EQ(code_thrown_by([&] { (void)make_composite_view(std::vector<CompositePart>{}); }),
              "INVALID_REQUEST");
}

TEST_F(TensorViews, ViewsInheritThePolicyOfTheirSourcesAndKeepThemAlive) {
    const SafetensorsBuilder file = SafetensorsBuilder().f32("p.a", {1}, {1});
    const auto other = SafetensorsBuilder().f32("b", {1}, {2});
    for (const bool synchronized : {false, true}) {
        auto source = open(file, synchronized);
        const std::weak_ptr<const TensorSource> watched = source;
        auto view = make_composite_view(
            {make_folded_view(make_prefix_view(std::move(source), "p.")), open(other, true)});
        EXPECT_EQ(view->synchronized(), synchronized);
        EXPECT_FALSE(watched.expired());
        EXPECT_EQ(view->scalar("a"), 1);
        view.reset();
        EXPECT_TRUE(watched.expired());
    }
}

}  // namespace
}  // namespace wavepool
