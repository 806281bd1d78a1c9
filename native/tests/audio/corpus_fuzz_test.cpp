#include <gtest/gtest.h>

#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "audio/audio_input.h"
#include "tests/support/audio_samples.h"

/// Mutations of a small file of every container and codec in test/fixtures/audio-corpus: formats
/// that are decoded here, and those of ffmpeg, which must be turned away. A file that once broke a
/// decoder is added to that folder and then runs first, as it is, for ever.
///
/// WAVEPOOL_FUZZ_MINUTES lets it run for so long, with another seed each time unless
/// WAVEPOOL_FUZZ_SEED gives one; WAVEPOOL_FUZZ_KEEP names a file that always holds the input that
/// is being decoded, so that one that ends the process is not lost. `npm run fuzz` sets them.
namespace wavepool::audio {
namespace {

namespace fs = std::filesystem;

constexpr int kRoundsPerFile = 300;
constexpr std::size_t kMostBytes = 64 * 1024;
/// More than this cannot be in a file of kMostBytes but where a few bytes mean much silence.
constexpr std::int64_t kEnough = std::int64_t{600} * kSampleRate;

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

std::vector<Bytes> corpus() {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(fs::path(WAVEPOOL_FIXTURES) / "audio-corpus"))
        files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    std::vector<Bytes> seeds;
    for (const fs::path& file : files) seeds.push_back(read_file(file));
    return seeds;
}

class Mutator {
  public:
    Mutator(std::vector<Bytes> seeds, std::uint32_t seed)
        : seeds_(std::move(seeds)), generator_(seed) {}

    Bytes mutated(const Bytes& original) {
        Bytes bytes = original;
        const std::size_t changes = 1 + below(6);
        for (std::size_t i = 0; i < changes && !bytes.empty(); ++i) change(bytes);
        if (bytes.size() > kMostBytes) bytes.resize(kMostBytes);
        return bytes;
    }

  private:
    std::size_t below(std::size_t limit) {
        return limit == 0 ? 0 : static_cast<std::size_t>(generator_()) % limit;
    }

    /// Headers are where sizes lie: most changes go there.
    std::size_t place(const Bytes& bytes) {
        return below(below(4) == 0 ? bytes.size() : std::min<std::size_t>(bytes.size(), 160));
    }

    void change(Bytes& bytes) {
        constexpr std::uint8_t kExtremes[]{0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF};
        const std::size_t at = place(bytes);
        switch (below(8)) {
            case 0:
                bytes[at] ^= static_cast<std::uint8_t>(1U << below(8));
                break;
            case 1:
                bytes[at] = kExtremes[below(std::size(kExtremes))];
                break;
            case 2:
                put_number(bytes, at);
                break;
            case 3:
                bytes.resize(1 + below(bytes.size()));
                break;
            case 4:
                erase(bytes, at);
                break;
            case 5:
                repeat(bytes, at);
                break;
            case 6:
                splice(bytes, at);
                break;
            default:
                bytes[at] = static_cast<std::uint8_t>(generator_());
                break;
        }
    }

    /// Two, four or eight bytes at once: sizes, rates, counts, in either order of bytes.
    void put_number(Bytes& bytes, std::size_t at) {
        constexpr std::uint64_t kNumbers[]{
            0,          1,          0x7FFF,         0x8000,     0xFFFF, 0x7FFFFFFF,
            0x80000000, 0xFFFFFFFF, 0xFFFFFFFFFFFF, ~0ULL >> 1, ~0ULL};
        const std::uint64_t number = kNumbers[below(std::size(kNumbers))];
        const std::size_t width = std::size_t{2} << below(3);
        const bool little = below(2) == 0;
        for (std::size_t i = 0; i < width && at + i < bytes.size(); ++i)
            bytes[at + i] = static_cast<std::uint8_t>(number >> (8 * (little ? i : width - 1 - i)));
    }

    void erase(Bytes& bytes, std::size_t at) {
        const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(at);
        bytes.erase(from,
                    from + static_cast<std::ptrdiff_t>(std::min(below(64) + 1, bytes.size() - at)));
    }

    void repeat(Bytes& bytes, std::size_t at) {
        const std::size_t count = std::min(below(512) + 1, bytes.size() - at);
        const Bytes piece(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                          bytes.begin() + static_cast<std::ptrdiff_t>(at + count));
        insert(bytes, at, piece);
    }

    /// A piece of another file.
    void splice(Bytes& bytes, std::size_t at) {
        const Bytes& other = seeds_[below(seeds_.size())];
        const std::size_t from = below(other.size());
        const std::size_t count = std::min(below(512) + 1, other.size() - from);
        const Bytes piece(other.begin() + static_cast<std::ptrdiff_t>(from),
                          other.begin() + static_cast<std::ptrdiff_t>(from + count));
        insert(bytes, at, piece);
    }

    static void insert(Bytes& bytes, std::size_t at, const Bytes& piece) {
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), piece.begin(), piece.end());
    }

    std::vector<Bytes> seeds_;
    std::mt19937 generator_;
};

/// Any outcome is right but a crash, a foreign exception, samples out of range, or decoding that
/// never ends.
bool survives(const std::function<std::unique_ptr<AudioInput>()>& open, const std::string& what) {
    try {
        const auto input = open();
        std::int64_t end = 0;
        for (bool ended = false; !ended && end < kEnough;) {
            ended = input->decode_until(end + kSampleRate, CancelToken());
            const std::int64_t next = input->store()->end();
            EXPECT_TRUE(ended || next > end) << what << ": no progress";
            if (!ended && next <= end) return false;
            std::vector<float> samples(static_cast<std::size_t>(next - end));
            input->store()->copy(end, samples);
            EXPECT_TRUE(std::all_of(samples.begin(), samples.end(), [](float sample) {
                return std::isfinite(sample) && std::abs(sample) <= 1.0F;
            })) << what;
            input->store()->release_before(next);
            end = next;
        }
        return true;
    } catch (const Error& error) {
        EXPECT_TRUE(error.code() == ErrorCode::kInputUndecodable ||
                    error.code() == ErrorCode::kInputEmpty)
            << what << ": " << error.what();
        return false;
    }
}

void keep(const Bytes& bytes) {
    const std::string file = variable("WAVEPOOL_FUZZ_KEEP");
    if (file.empty()) return;
    std::ofstream(file, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
}

/// Opens the bytes through a pipe, as ffmpeg's output arrives.
std::unique_ptr<AudioInput> open_through_pipe(const Bytes& bytes, std::thread& writer) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    writer = std::thread([bytes, end = ends[1]] {
        for (std::size_t sent = 0; sent < bytes.size();) {
            const ssize_t count = ::write(end, bytes.data() + sent, bytes.size() - sent);
            if (count <= 0) break;
            sent += static_cast<std::size_t>(count);
        }
        ::close(end);
    });
    return open_pipe(ends[0], 20000, CancelToken());
}

class AudioCorpusFuzz : public testing::Test {
  protected:
    // A pipe that its reader gave up must not end the tests.
    void SetUp() override { std::signal(SIGPIPE, SIG_IGN); }

    /// Runs `round` for each file: as it is, then changed, a fixed number of times or for as long
    /// as was asked for. Every part of the time is one test's.
    template <typename Round>
    void run(double share, const Round& round) {
        const std::vector<Bytes> seeds = corpus();
        ASSERT_GT(seeds.size(), 20U);
        const std::string minutes = variable("WAVEPOOL_FUZZ_MINUTES");
        const std::string given = variable("WAVEPOOL_FUZZ_SEED");
        std::uint32_t seed = 21;
        if (!minutes.empty()) seed = std::random_device()();
        if (!given.empty()) seed = static_cast<std::uint32_t>(std::stoul(given));
        SCOPED_TRACE("WAVEPOOL_FUZZ_SEED=" + std::to_string(seed));
        Mutator mutator(seeds, seed);
        for (const Bytes& bytes : seeds) round(bytes, "as it is");
        const auto seconds = minutes.empty() ? 0.0 : std::stod(minutes) * 60 * share;
        const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
        std::size_t rounds = 0;
        for (int pass = 0; pass < kRoundsPerFile || std::chrono::steady_clock::now() < end;
             ++pass) {
            for (const Bytes& bytes : seeds) {
                const Bytes changed = mutator.mutated(bytes);
                keep(changed);
                round(changed, "round " + std::to_string(rounds));
                if (HasFailure()) return;
                ++rounds;
            }
        }
        RecordProperty("rounds", std::to_string(rounds));
        if (!minutes.empty()) std::printf("%zu rounds, seed %u\n", rounds, seed);
    }
};

TEST_F(AudioCorpusFuzz, NoFileBreaksTheDecoders) {
    std::size_t decoded = 0;
    const TemporaryFile file(Bytes{0});
    run(0.8, [&](const Bytes& bytes, const std::string& what) {
        file.write(bytes);
        if (survives([&] { return open_file(file.path()); }, what)) ++decoded;
    });
    EXPECT_GT(decoded, kRoundsPerFile * 5U) << "the mutations destroy too much to test anything";
}

TEST_F(AudioCorpusFuzz, NoStreamBreaksThePipe) {
    run(0.2, [&](const Bytes& bytes, const std::string& what) {
        std::thread writer;
        (void)survives([&] { return open_through_pipe(bytes, writer); }, what);
        if (writer.joinable()) writer.join();
    });
}

}  // namespace
}  // namespace wavepool::audio
