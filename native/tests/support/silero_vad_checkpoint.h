#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace wavepool::testing {

/// A silero-vad checkpoint with small pseudo-random weights: the shapes and the transform of the
/// real one, so that everything but the meaning of its numbers can be tested without a download.
struct VadCheckpoint {
    struct Tensor {
        std::vector<std::int64_t> shape;  ///< outermost first
        std::vector<float> values;
    };

    VadCheckpoint();

    std::string architecture = "silero-vad";
    std::map<std::string, std::uint32_t> integers;
    std::map<std::string, Tensor> tensors;
};

/// A GGUF file in a folder of its own that dies with this object.
class VadCheckpointFile {
  public:
    explicit VadCheckpointFile(const VadCheckpoint& checkpoint);
    ~VadCheckpointFile();
    VadCheckpointFile(const VadCheckpointFile&) = delete;
    VadCheckpointFile& operator=(const VadCheckpointFile&) = delete;

    [[nodiscard]] std::filesystem::path path() const { return folder_ / "model.gguf"; }

  private:
    std::filesystem::path folder_;
};

}  // namespace wavepool::testing
