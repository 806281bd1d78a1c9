#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace wavepool::testing {

/// Writes GGUF v3 as the format's specification has it, for tests.
class GgufBuilder {
  public:
    GgufBuilder& string(const std::string& key, const std::string& value);
    GgufBuilder& uint32(const std::string& key, std::uint32_t value);
    GgufBuilder& uint64(const std::string& key, std::uint64_t value);
    GgufBuilder& float32(const std::string& key, float value);
    GgufBuilder& strings(const std::string& key, const std::vector<std::string>& values);
    /// `shape` is outermost first; `type` is ggml's number.
    GgufBuilder& tensor(const std::string& name, std::vector<std::int64_t> shape,
                        std::uint32_t type, const std::string& data);
    GgufBuilder& f32(const std::string& name, std::vector<std::int64_t> shape,
                     const std::vector<float>& values);

    [[nodiscard]] std::string bytes() const;

  private:
    struct Tensor {
        std::string header;
        std::string data;
    };
    std::string metadata_;
    std::uint64_t metadata_count_ = 0;
    std::vector<Tensor> tensors_;
};

/// A folder of its own that is removed with everything in it.
class TemporaryFolder {
  public:
    TemporaryFolder();
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    /// Writes a file into the folder and returns its path.
    [[nodiscard]] std::filesystem::path write(const std::string& name,
                                              const std::string& bytes) const;
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

/// The model file of one of the fake families (fake_family.h).
[[nodiscard]] std::string fake_model_bytes(const std::string& architecture = "fake",
                                           std::uint32_t capacity = 4, bool native_batch = true,
                                           float max_segment_seconds = 30);

/// Deterministic samples in [-0.5, 0.5].
[[nodiscard]] std::vector<float> noise(std::size_t count, std::uint32_t seed);

}  // namespace wavepool::testing
