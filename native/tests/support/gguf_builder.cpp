#include "tests/support/gguf_builder.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <stdexcept>

namespace wavepool::testing {
namespace {

constexpr std::size_t kAlignment = 32;

template <typename T>
std::string raw(const T& value) {
    return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

std::string sized(const std::string& text) { return raw<std::uint64_t>(text.size()) + text; }

void pad(std::string& bytes) {
    bytes.resize((bytes.size() + kAlignment - 1) / kAlignment * kAlignment, '\0');
}

}  // namespace

GgufBuilder& GgufBuilder::string(const std::string& key, const std::string& value) {
    metadata_ += sized(key) + raw<std::uint32_t>(8) + sized(value);
    ++metadata_count_;
    return *this;
}

GgufBuilder& GgufBuilder::uint32(const std::string& key, std::uint32_t value) {
    metadata_ += sized(key) + raw<std::uint32_t>(4) + raw(value);
    ++metadata_count_;
    return *this;
}

GgufBuilder& GgufBuilder::uint64(const std::string& key, std::uint64_t value) {
    metadata_ += sized(key) + raw<std::uint32_t>(10) + raw(value);
    ++metadata_count_;
    return *this;
}

GgufBuilder& GgufBuilder::float32(const std::string& key, float value) {
    metadata_ += sized(key) + raw<std::uint32_t>(6) + raw(value);
    ++metadata_count_;
    return *this;
}

GgufBuilder& GgufBuilder::strings(const std::string& key, const std::vector<std::string>& values) {
    metadata_ += sized(key) + raw<std::uint32_t>(9) + raw<std::uint32_t>(8) +
                 raw<std::uint64_t>(values.size());
    for (const auto& value : values) metadata_ += sized(value);
    ++metadata_count_;
    return *this;
}

GgufBuilder& GgufBuilder::tensor(const std::string& name, std::vector<std::int64_t> shape,
                                 std::uint32_t type, const std::string& data) {
    std::string header = sized(name) + raw(static_cast<std::uint32_t>(shape.size()));
    for (auto extent = shape.rbegin(); extent != shape.rend(); ++extent) header += raw(*extent);
    tensors_.push_back({header + raw(type), data});
    return *this;
}

GgufBuilder& GgufBuilder::f32(const std::string& name, std::vector<std::int64_t> shape,
                              const std::vector<float>& values) {
    return tensor(name, std::move(shape), 0,
                  {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
}

std::string GgufBuilder::bytes() const {
    std::string file = "GGUF" + raw<std::uint32_t>(3) + raw<std::uint64_t>(tensors_.size()) +
                       raw(metadata_count_) + metadata_;
    std::string data;
    for (const Tensor& tensor : tensors_) {
        file += tensor.header + raw<std::uint64_t>(data.size());
        data += tensor.data;
        pad(data);
    }
    pad(file);
    return file + data;
}

TemporaryFolder::TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "wavepool-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path TemporaryFolder::write(const std::string& name,
                                             const std::string& bytes) const {
    const auto file = path_ / name;
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
}

std::string fake_model_bytes(const std::string& architecture, std::uint32_t capacity,
                             bool native_batch, float max_segment_seconds) {
    return GgufBuilder()
        .string("general.architecture", architecture)
        .string("general.name", architecture + " for tests")
        .uint32("fake.capacity", capacity)
        .uint32("fake.native_batch", native_batch ? 1 : 0)
        .float32("fake.max_segment_seconds", max_segment_seconds)
        .f32("fake.weight", {4}, {1, 2, 3, 4})
        .bytes();
}

std::vector<float> noise(std::size_t count, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<float> samples(count);
    for (float& sample : samples) {
        sample = static_cast<float>(random()) / static_cast<float>(std::mt19937::max()) - 0.5F;
    }
    return samples;
}

}  // namespace wavepool::testing
