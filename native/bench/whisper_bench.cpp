// Our kernels against whisper.cpp's on Whisper, in one process, taking turns. Usage:
//   whisper_bench MODEL SPEECH_FOLDER [rounds] [best|stock] [texts]
// Every file of the folder is one clip (files beyond the longest segment are cut there). One line
// per combination of batch and threads tells the medians over the rounds and of the ratios within
// each. The fourth argument leaves one contestant; `texts` prints what it hears, one line a clip.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "audio/audio_input.h"
#include "models/whisper/family.h"

namespace {

using namespace wavepool;

constexpr std::int64_t kRate = 16000;

struct Clips {
    std::vector<std::string> names;
    std::vector<TaskRequest> requests;
    double seconds = 0;
};

Clips read_clips(const std::filesystem::path& folder, double longest) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const auto extension = entry.path().extension();
        if (extension != ".tsv" && extension != ".json") files.push_back(entry.path());
    }
    std::ranges::sort(files);
    Clips clips;
    for (const auto& file : files) {
        const auto input = audio::open_file(file);
        input->decode_until(std::numeric_limits<std::int64_t>::max(), {});
        const std::int64_t end = input->store()->end();
        const auto most = static_cast<std::int64_t>(longest * kRate);
        for (std::int64_t start = 0; start + kRate / 2 < end; start += most) {
            const std::int64_t length = std::min(most, end - start);
            clips.names.push_back(file.filename());
            clips.requests.push_back({{input->store(), start, length}, nullptr, {}, {}});
            clips.seconds += static_cast<double>(length) / kRate;
        }
    }
    return clips;
}

/// The CPU time of all threads of this process: other processes may be computing on this machine.
double cpu_seconds() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double run(IVoiceTaskSession& session, std::span<const TaskRequest> clips, std::size_t batch,
           std::vector<std::string>& texts) {
    auto& batched = dynamic_cast<IBatchedOfflineVoiceTaskSession&>(session);
    const double started = cpu_seconds();
    texts.clear();
    for (std::size_t first = 0; first < clips.size(); first += batch) {
        const auto part = clips.subspan(first, std::min(batch, clips.size() - first));
        for (const TaskOutcome& outcome : batched.run_batch(part)) {
            texts.push_back(std::get<TaskResult>(outcome).text);
        }
    }
    return cpu_seconds() - started;
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

void compare(std::vector<Contestant>& contestants, const Clips& clips, std::size_t batch,
             int threads, int rounds) {
    for (Contestant& c : contestants) {
        c.session = c.model->create_session({.threads = threads, .max_batch = batch});
        c.seconds.clear();
        (void)run(*c.session, std::span(clips.requests).first(1), batch, c.texts);
    }
    std::vector<double> ratios;
    for (int round = 0; round < rounds; ++round) {
        for (Contestant& c : contestants) {
            c.seconds.push_back(run(*c.session, clips.requests, batch, c.texts));
        }
        ratios.push_back(contestants.back().seconds.back() / contestants.front().seconds.back());
    }
    std::printf("batch %zu, %d thread%s:", batch, threads, threads == 1 ? "" : "s");
    for (const Contestant& c : contestants) {
        std::printf(" %s %.1f audio s per CPU s, %.0f MiB,", c.name,
                    clips.seconds / median(c.seconds),
                    static_cast<double>(c.session->private_bytes()) / (1 << 20));
    }
    std::size_t differ = 0;
    for (std::size_t i = 0; i < clips.names.size(); ++i) {
        differ += contestants.front().texts[i] != contestants.back().texts[i] ? 1 : 0;
    }
    std::printf(" ratio %.2f, %zu of %zu texts differ\n", median(ratios), differ,
                clips.names.size());
}

}  // namespace

int main(int count, char** arguments) {
    if (count < 3) {
        std::fprintf(stderr,
                     "usage: whisper_bench MODEL SPEECH_FOLDER [rounds] [best|stock] [texts]\n");
        return 2;
    }
    const int rounds = count > 3 ? std::stoi(arguments[3]) : 3;
    const std::string only = count > 4 ? arguments[4] : "";
    try {
        const auto source = open_tensor_source(arguments[1]);
        std::vector<Contestant> contestants;
        const auto add = [&](const char* name, whisper::Kernels kernels) {
            if (!only.empty() && only != "both" && only != name) return;
            contestants.push_back({name, whisper::load(*source, kernels), nullptr, {}, {}});
        };
        add("best", whisper::Kernels::kBest);
        add("stock", whisper::Kernels::kStock);
        const Clips clips =
            read_clips(arguments[2], contestants.front().model->info().max_segment_seconds);
        if (count > 5) {
            Contestant& c = contestants.front();
            c.session = c.model->create_session({.max_batch = 16});
            (void)run(*c.session, clips.requests, 16, c.texts);
            for (std::size_t i = 0; i < c.texts.size(); ++i) {
                std::printf("%s\t%s\n", clips.names[i].c_str(), c.texts[i].c_str());
            }
            return 0;
        }
        for (const std::size_t batch : {1, 4, 8, 16}) compare(contestants, clips, batch, 1, rounds);
        compare(contestants, clips, 8, 2, rounds);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
