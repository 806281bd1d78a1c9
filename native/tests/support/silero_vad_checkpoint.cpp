#include "tests/support/silero_vad_checkpoint.h"

#include <stdlib.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <numbers>
#include <stdexcept>
#include <string_view>

namespace wavepool::testing {
namespace {

constexpr int kFrame = 256;
constexpr int kBins = 129;
constexpr int kAlignment = 32;

std::int64_t elements(const std::vector<std::int64_t>& shape) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    return count;
}

/// GGUF v3, little endian. Unlike ggml's writer it keeps outermost extents of 1.
class GgufWriter {
  public:
    explicit GgufWriter(const std::filesystem::path& path) : out_(path, std::ios::binary) {}

    template <typename Integer>
    void integer(Integer value) {
        for (std::size_t byte = 0; byte < sizeof(Integer); ++byte)
            out_.put(static_cast<char>(value >> (8 * byte)));
    }
    void text(std::string_view value) {
        integer<std::uint64_t>(value.size());
        out_.write(value.data(), static_cast<std::streamsize>(value.size()));
    }
    void metadata(std::string_view key, std::uint32_t value) {
        text(key);
        integer<std::uint32_t>(4);
        integer(value);
    }
    void metadata(std::string_view key, std::string_view value) {
        text(key);
        integer<std::uint32_t>(8);
        text(value);
    }
    void align() {
        while (out_.tellp() % kAlignment != 0) out_.put(0);
    }
    void close() {
        out_.close();
        if (!out_) throw std::runtime_error("cannot write the checkpoint");
    }

  private:
    std::ofstream out_;
};

VadCheckpoint::Tensor transform() {
    VadCheckpoint::Tensor basis{{2 * kBins, 1, kFrame}, {}};
    for (int row = 0; row < 2 * kBins; ++row) {
        for (int i = 0; i < kFrame; ++i) {
            const double turn = 2 * std::numbers::pi / kFrame;
            const double window = 0.5 - 0.5 * std::cos(turn * i);
            const double angle = turn * ((row % kBins) * i % kFrame);
            basis.values.push_back(
                static_cast<float>(window * (row < kBins ? std::cos(angle) : -std::sin(angle))));
        }
    }
    return basis;
}

}  // namespace

VadCheckpoint::VadCheckpoint()
    : integers{{"silero.sample_rate", 16000}, {"silero.window", 512}, {"silero.context", 64}} {
    std::uint32_t seed = 1;
    const auto random = [&](const std::string& name, std::vector<std::int64_t> shape,
                            double limit) {
        Tensor tensor{std::move(shape), {}};
        for (std::int64_t i = elements(tensor.shape); i > 0; --i) {
            seed = seed * 1664525U + 1013904223U;
            tensor.values.push_back(static_cast<float>(limit * ((seed >> 8) / 8388608.0 - 1.0)));
        }
        tensors[name] = std::move(tensor);
    };
    tensors["stft_conv.weight"] = transform();
    random("conv1.weight", {128, 129, 3}, 0.1);
    random("conv1.bias", {128}, 0.1);
    random("conv2.weight", {64, 128, 3}, 0.1);
    random("conv2.bias", {64}, 0.1);
    random("conv3.weight", {64, 64, 3}, 0.2);
    random("conv3.bias", {64}, 0.1);
    random("conv4.weight", {128, 64, 3}, 0.2);
    random("conv4.bias", {128}, 0.1);
    random("lstm_cell.weight_ih", {512, 128}, 0.3);
    random("lstm_cell.weight_hh", {512, 128}, 0.3);
    random("lstm_cell.bias_ih", {512}, 0.1);
    random("lstm_cell.bias_hh", {512}, 0.1);
    random("final_conv.weight", {1, 128, 1}, 1.0);
    random("final_conv.bias", {1}, 0.1);
}

VadCheckpointFile::VadCheckpointFile(const VadCheckpoint& checkpoint) {
    std::string pattern = std::filesystem::temp_directory_path() / "silero-vad-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = pattern;

    GgufWriter out(path());
    out.integer<std::uint32_t>(0x46554747);  // "GGUF"
    out.integer<std::uint32_t>(3);
    out.integer<std::uint64_t>(checkpoint.tensors.size());
    out.integer<std::uint64_t>(2 + checkpoint.integers.size());
    out.metadata("general.architecture", checkpoint.architecture);
    out.metadata("general.name", "silero-vad");
    for (const auto& [key, value] : checkpoint.integers) out.metadata(key, value);
    std::uint64_t offset = 0;
    for (const auto& [name, tensor] : checkpoint.tensors) {
        out.text(name);
        out.integer(static_cast<std::uint32_t>(tensor.shape.size()));
        for (auto extent = tensor.shape.rbegin(); extent != tensor.shape.rend(); ++extent)
            out.integer(static_cast<std::uint64_t>(*extent));
        out.integer<std::uint32_t>(0);  // f32
        out.integer(offset);
        offset += (tensor.values.size() * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
    }
    out.align();
    for (const auto& [name, tensor] : checkpoint.tensors) {
        for (const float value : tensor.values) out.integer(std::bit_cast<std::uint32_t>(value));
        out.align();
    }
    out.close();
}

VadCheckpointFile::~VadCheckpointFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
}

}  // namespace wavepool::testing
