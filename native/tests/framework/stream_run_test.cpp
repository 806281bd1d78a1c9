// Streams on sessions: order of the calls, failures, and slots beside each other.
#include "framework/sessions/stream_run.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "framework/sessions/session_pool.h"
#include "tests/support/error_code.h"
#include "tests/support/fake_family.h"
#include "tests/support/faults.h"
#include "tests/support/gguf_builder.h"

namespace wavepool {
namespace {

using testing::code_thrown_by;

/// Counts its chunks, as the reference's test does, and cleans up nothing by itself.
class CountingSession final : public IVoiceTaskSession, public IStreamingVoiceTaskSession {
  public:
    [[nodiscard]] std::string_view family() const noexcept override { return "counting"; }
    [[nodiscard]] TaskKind task_kind() const noexcept override { return TaskKind::kAsr; }
    [[nodiscard]] RunMode run_mode() const noexcept override { return RunMode::kStreaming; }
    void prepare(const TaskRequest&) override {}
    [[nodiscard]] std::size_t private_bytes() const noexcept override { return 0; }

    void start_stream(const TaskRequest&) override { fail("start"); }
    std::optional<TaskResult> process_audio_chunk(std::span<const float>) override {
        ++chunks;
        fail("chunk");
        return std::nullopt;
    }
    TaskResult finish_stream() override {
        fail("finish");
        return {.text = std::to_string(chunks)};
    }
    void reset() noexcept override { chunks = 0; }

    int chunks = 0;
    std::string failing;

  private:
    void fail(const std::string& where) const {
        if (failing == where) throw Error(ErrorCode::kInputUndecodable, where);
    }
};

const std::vector<float> kChunk(160, 0.25F);

// P6
TEST(StreamRun, TwoInterleavedStreamsCountTheirOwnChunks) {
    VoiceTaskSessionPool pool(
        std::make_unique<CountingSession>(), 2, [] { return std::make_unique<CountingSession>(); },
        2);
    StreamRun first(pool.at(0), {});
    StreamRun second(pool.at(1), {});
    (void)first.push(kChunk);
    (void)second.push(kChunk);
    (void)first.push(kChunk);
    EXPECT_EQ(first.finish().text, "2");
    EXPECT_EQ(second.finish().text, "1");
}

// P7, C1
TEST(StreamRun, AFailureAnywherePropagatesAndLeavesACleanSession) {
    CountingSession session;
    for (const std::string where : {"start", "chunk", "finish"}) {
        session.failing = where;
        const auto whole = [&] {
            StreamRun stream(session, {});
            (void)stream.push(kChunk);
            (void)stream.finish();
        };
        EXPECT_EQ(code_thrown_by(whole), "INPUT_UNDECODABLE") << where;
        EXPECT_EQ(session.chunks, 0) << where;
    }
    session.failing.clear();
    StreamRun next(session, {});
    (void)next.push(kChunk);
    EXPECT_EQ(next.finish().text, "1");
}

// C1
TEST(StreamRun, AnEndedStreamTakesNothingMoreAndIsNotFinishedTwice) {
    CountingSession session;
    StreamRun finished(session, {});
    (void)finished.finish();
    EXPECT_EQ(code_thrown_by([&] { (void)finished.finish(); }), "INVALID_REQUEST");
    EXPECT_EQ(code_thrown_by([&] { (void)finished.push(kChunk); }), "INVALID_REQUEST");

    session.failing = "chunk";
    StreamRun failed(session, {});
    EXPECT_EQ(code_thrown_by([&] { (void)failed.push(kChunk); }), "INPUT_UNDECODABLE");
    session.failing.clear();
    EXPECT_EQ(code_thrown_by([&] { (void)failed.push(kChunk); }), "INVALID_REQUEST");
    EXPECT_EQ(code_thrown_by([&] { (void)failed.finish(); }), "INVALID_REQUEST");

    // A stream that has ended leaves the one after it alone.
    StreamRun next(session, {});
    (void)next.push(kChunk);
    failed.reset();
    EXPECT_EQ(next.finish().text, "1");
}

TEST(StreamRun, AStreamThatIsDroppedResetsItsSession) {
    CountingSession session;
    {
        StreamRun dropped(session, {});
        (void)dropped.push(kChunk);
    }
    EXPECT_EQ(session.chunks, 0);
}

class FakeStream : public ::testing::Test {
  protected:
    void SetUp() override {
        const auto file = folder_.write("fake.gguf", testing::fake_model_bytes("fake-vad"));
        session_ =
            load_model(file, fake::families())->create_session({.mode = RunMode::kStreaming});
    }
    void TearDown() override { fake::clear_faults(); }

    std::vector<float> streamed() {
        StreamRun stream(*session_, {});
        const auto part = stream.push(testing::noise(2048, 3));
        EXPECT_EQ(code_thrown_by([&] { EXPECT_TRUE(stream.finish().probabilities.empty()); }),
                  "nothing");
        return part ? part->probabilities : std::vector<float>{};
    }

    testing::TemporaryFolder folder_;
    std::unique_ptr<IVoiceTaskSession> session_;
};

TEST_F(FakeStream, FaultsOfTheFakeReachItsStreams) {
    const std::vector<float> expected = streamed();
    EXPECT_EQ(expected.size(), 4U);
    fake::set_fault("prepare", true);
    EXPECT_EQ(code_thrown_by([&] { const StreamRun stream(*session_, {}); }), "INVALID_REQUEST");
    fake::clear_faults();
    TaskRequest faulty;
    faulty.options["fault"] = "run";
    StreamRun stream(*session_, faulty);
    EXPECT_EQ(code_thrown_by([&] { (void)stream.push(testing::noise(512, 1)); }), "INTERNAL");
    EXPECT_EQ(streamed(), expected);
}

}  // namespace
}  // namespace wavepool
