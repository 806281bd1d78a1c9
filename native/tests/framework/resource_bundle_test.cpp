#include "framework/tensors/resource_bundle.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/error_code.h"
#include "tests/support/gguf_builder.h"

namespace wavepool {
namespace {

using testing::code_thrown_by;

class Bundle : public ::testing::Test {
  protected:
    void SetUp() override {
        (void)folder_.write(
            "model.gguf",
            testing::GgufBuilder().f32("asr.weight", {1}, {1}).f32("vad.weight", {1}, {2}).bytes());
        (void)folder_.write("tokens.txt", "a\n");
        std::filesystem::create_symlink("model.gguf", folder_.path() / "link.gguf");
    }
    std::shared_ptr<const ResourceBundle> published(bool synchronized = true) {
        auto bundle = std::make_shared<ResourceBundle>(
            folder_.path(), ResourceBundleOptions{.synchronized = synchronized});
        bundle->add("all", "model.gguf");
        bundle->add("linked", "link.gguf");
        bundle->add("asr", "model.gguf", "asr.");
        bundle->add("vad", "model.gguf", "vad.");
        bundle->add("tokens", "tokens.txt");
        return bundle;
    }
    testing::TemporaryFolder folder_;
};

TEST_F(Bundle, RegistersFilesAndRefusesWhatCannotBeOne) {
    ResourceBundle bundle(folder_.path());
    bundle.add("model", "model.gguf");
    const auto code = [&](const std::string& id, const std::filesystem::path& file) {
        return code_thrown_by([&] { bundle.add(id, file); });
    };
    EXPECT_EQ(code("", "model.gguf"), "INVALID_REQUEST");
    EXPECT_EQ(code("model", "tokens.txt"), "INVALID_REQUEST");
    EXPECT_EQ(code("other", "nothing.gguf"), "INPUT_NOT_FOUND");
    EXPECT_EQ(code("other", "."), "INPUT_NOT_FOUND");
    EXPECT_EQ(code("other", "../model.gguf"), "INVALID_REQUEST");
    EXPECT_EQ(code("other", folder_.path() / "model.gguf"), "INVALID_REQUEST");
    EXPECT_EQ(bundle.file("model").filename(), "model.gguf") << "what failed changed nothing";
    EXPECT_EQ(code_thrown_by([&] { (void)bundle.file("other"); }), "INVALID_REQUEST");
    EXPECT_EQ(code_thrown_by([&] { (void)bundle.open_tensor_source("other"); }), "INVALID_REQUEST");
}

TEST_F(Bundle, IdsOfOneFileShareItsSourceAndHaveTheirOwnViews) {
    const auto bundle = published();
    EXPECT_EQ(bundle->open_tensor_source("all"), bundle->open_tensor_source("all"));
    EXPECT_EQ(bundle->open_tensor_source("all"), bundle->open_tensor_source("linked"))
        << "one canonical path, one source";
    EXPECT_NE(bundle->open_tensor_source("asr"), bundle->open_tensor_source("vad"));
    EXPECT_EQ(bundle->open_tensor_source("asr"), bundle->open_tensor_source("asr"));
    EXPECT_EQ(bundle->open_tensor_source("asr")->scalar("weight"), 1);
    EXPECT_EQ(bundle->open_tensor_source("vad")->scalar("weight"), 2);
}

TEST_F(Bundle, AFileThatIsNoModelFailsEachTimeItIsOpened) {
    const auto bundle = published();
    for (int attempt = 0; attempt < 2; ++attempt) {
        EXPECT_EQ(code_thrown_by([&] { (void)bundle->open_tensor_source("tokens"); }),
                  "MODEL_FILE_INVALID");
    }
}

// T2
TEST_F(Bundle, SynchronizedAndUnsynchronizedSourcesAreNeverExchanged) {
    for (const bool synchronized_cache : {false, true}) {
        const auto bundle = published(synchronized_cache);
        for (const char* id : {"all", "linked", "asr"}) {
            const auto plain = bundle->open_tensor_source(id);
            const auto locked = bundle->open_tensor_source(id, {.synchronized = true});
            EXPECT_NE(plain, locked);
            EXPECT_FALSE(plain->synchronized());
            EXPECT_TRUE(locked->synchronized());
            EXPECT_EQ(bundle->open_tensor_source(id), plain);
            EXPECT_EQ(bundle->open_tensor_source(id, {.synchronized = true}), locked);
            // Releasing one leaves the other alone, and each maps again.
            plain->release_storage();
            locked->release_storage();
            const std::string name = std::string(id) == "asr" ? "weight" : "asr.weight";
            EXPECT_EQ(plain->scalar(name), 1);
            EXPECT_EQ(locked->scalar(name), 1);
        }
    }
}

// T2
TEST_F(Bundle, ThreadsThatOpenAtOnceGetOneSourceThatIsSafeToReleaseAndRead) {
    constexpr int kThreads = 8;
    const auto bundle = published();
    std::mutex mutex;
    std::set<const TensorSource*> sources;
    std::atomic<int> right = 0;
    {
        std::vector<std::jthread> threads;
        for (int thread = 0; thread < kThreads; ++thread) {
            threads.emplace_back([&, thread] {
                const char* id = thread % 2 == 0 ? "asr" : "vad";
                const auto source = bundle->open_tensor_source(id, {.synchronized = true});
                for (int round = 0; round < 50; ++round) {
                    right += source->scalar("weight") == 1 + thread % 2;
                    source->release_storage();
                }
                const std::scoped_lock lock(mutex);
                sources.insert(source.get());
            });
        }
    }
    EXPECT_EQ(sources.size(), 2U);
    EXPECT_EQ(right, kThreads * 50);
}

}  // namespace
}  // namespace wavepool
