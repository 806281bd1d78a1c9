// Our kernels against ggml's on Moonshine, in one process, taking turns. Usage:
//   moonshine_bench MODEL.gguf SPEECH_FOLDER [rounds] [best|stock]
// Clips of 3 to 12 s are cut from the readings in the folder; one line per combination of batch and
// threads tells the medians over the rounds and of the ratios within each. The fourth argument
// leaves one contestant, for a profiler.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "audio/audio_input.h"
#include "models/moonshine/moonshine.h"

namespace {

using namespace wavepool;

constexpr int kShortestSeconds = 3;
constexpr int kLongestSeconds = 12;
constexpr std::size_t kClips = 24;

std::vector<TaskRequest> cut_clips(const std::filesystem::path& folder) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() != ".tsv") files.push_back(entry.path());
    }
    std::ranges::sort(files);
    std::mt19937 random(1);
    std::vector<TaskRequest> clips;
    for (const auto& file : files) {
        const auto input = audio::open_file(file);
        input->decode_until(std::numeric_limits<std::int64_t>::max(), {});
        const std::int64_t end = input->store()->end();
        std::int64_t start = 0;
        while (start < end) {
            const auto spread =
                static_cast<std::uint32_t>((kLongestSeconds - kShortestSeconds) * kSampleRate);
            const std::int64_t length = std::min<std::int64_t>(
                kShortestSeconds * kSampleRate + random() % spread, end - start);
            if (length >= kShortestSeconds * kSampleRate) {
                clips.push_back({{input->store(), start, length}, nullptr, {}, {}});
            }
            start += length;
        }
    }
    std::ranges::shuffle(clips, random);
    clips.resize(std::min(clips.size(), kClips));
    std::ranges::sort(clips, std::greater{},
                      [](const TaskRequest& request) { return request.audio.count; });
    return clips;
}

double run(IVoiceTaskSession& session, std::span<const TaskRequest> clips, std::size_t batch,
           std::vector<std::string>& texts) {
    auto& batched = dynamic_cast<IBatchedOfflineVoiceTaskSession&>(session);
    const auto started = std::chrono::steady_clock::now();
    texts.clear();
    for (std::size_t first = 0; first < clips.size(); first += batch) {
        const auto part = clips.subspan(first, std::min(batch, clips.size() - first));
        for (const TaskOutcome& outcome : batched.run_batch(part)) {
            texts.push_back(std::get<TaskResult>(outcome).text);
        }
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
}

double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
}

struct Contestant {
    const char* name;
    std::shared_ptr<const ILoadedModel> model;
    std::unique_ptr<IVoiceTaskSession> session;
    std::vector<double> seconds;
    std::vector<std::string> texts;
};

void compare(std::vector<Contestant>& contestants, std::span<const TaskRequest> clips,
             std::size_t batch, int threads, int rounds) {
    double audio = 0;
    for (const TaskRequest& clip : clips) {
        audio += static_cast<double>(clip.audio.count) / kSampleRate;
    }
    for (Contestant& c : contestants) {
        c.session = c.model->create_session(
            {.threads = threads, .max_batch = batch, .max_segment_seconds = kLongestSeconds});
        c.seconds.clear();
        (void)run(*c.session, clips.first(1), batch, c.texts);
    }
    std::vector<double> ratios;
    for (int round = 0; round < rounds; ++round) {
        for (Contestant& c : contestants) {
            c.seconds.push_back(run(*c.session, clips, batch, c.texts));
        }
        ratios.push_back(contestants.back().seconds.back() / contestants.front().seconds.back());
    }
    std::printf("batch %zu, %d thread%s:", batch, threads, threads == 1 ? "" : "s");
    for (const Contestant& c : contestants) {
        std::printf(" %s %.1f audio s/s,", c.name, audio / median(c.seconds));
    }
    const auto differ = std::ranges::mismatch(contestants.front().texts, contestants.back().texts);
    std::printf(" ratio %.2f, texts %s\n", median(ratios),
                differ.in1 == contestants.front().texts.end() ? "equal" : "differ");
    for (std::size_t i = 0; i < clips.size(); ++i) {
        const std::string& ours = contestants.front().texts[i];
        const std::string& other = contestants.back().texts[i];
        if (ours != other) std::printf("  %s\n  %s\n", ours.c_str(), other.c_str());
    }
}

}  // namespace

int main(int count, char** arguments) {
    if (count < 3) {
        std::fprintf(stderr,
                     "usage: moonshine_bench MODEL.gguf SPEECH_FOLDER [rounds] [best|stock]\n");
        return 2;
    }
    const int rounds = count > 3 ? std::stoi(arguments[3]) : 5;
    const std::string only = count > 4 ? arguments[4] : "";
    try {
        const auto source = open_tensor_source(arguments[1]);
        std::vector<Contestant> contestants;
        const auto add = [&](const char* name, moonshine::Kernels kernels) {
            if (!only.empty() && only != name) return;
            contestants.push_back({name, moonshine::load(*source, kernels), nullptr, {}, {}});
        };
        add("best", moonshine::Kernels::kBest);
        add("stock", moonshine::Kernels::kStock);
        const auto clips = cut_clips(arguments[2]);
        for (const std::size_t batch : {1, 8}) {
            for (const int threads : {1, 2}) compare(contestants, clips, batch, threads, rounds);
        }
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
