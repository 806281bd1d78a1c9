#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/moonshine/graph_memory.h"
#include "models/moonshine/weights.h"

namespace wavepool::moonshine {

/// Keys and values of one decoder block, each [rows][positions][width]. Keys are f16. Values are
/// bf16: of all types of two bytes that is the one whose values ggml sums in f32, where a sum over
/// more than a thousand frames would lose too much in f16; and ggml splits the keys of a single
/// sequence over its threads only where both have one type, which would make bits depend on the
/// number of threads.
struct BlockCache {
    ggml_tensor* self_key = nullptr;
    ggml_tensor* self_value = nullptr;
    ggml_tensor* cross_key = nullptr;
    ggml_tensor* cross_value = nullptr;
};

/// The keys and values of every row, and how much of each row is filled.
class Cache {
  public:
    /// Throws Error{kInsufficientMemory}.
    Cache(const Config& config, std::int64_t rows, std::int64_t tokens, std::int64_t frames,
          Allocation allocation = Allocation::kReal);

    [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
    [[nodiscard]] std::int64_t tokens() const noexcept { return tokens_; }
    [[nodiscard]] std::int64_t frames() const noexcept { return frames_; }
    [[nodiscard]] const BlockCache& block(std::size_t index) const { return blocks_.at(index); }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

    struct Row {
        std::int64_t frames = 0;  ///< encoded
        std::int64_t tokens = 0;  ///< fed to the decoder
    };
    [[nodiscard]] Row& row(std::int64_t index) {
        return filled_.at(static_cast<std::size_t>(index));
    }

    /// Copies what row `from` holds to row `to`.
    void move_row(std::int64_t from, std::int64_t to);

  private:
    std::int64_t rows_;
    std::int64_t tokens_;
    std::int64_t frames_;
    ContextPtr context_;
    BufferPtr buffer_;
    std::size_t bytes_ = 0;
    std::vector<BlockCache> blocks_;
    std::vector<Row> filled_;
};

}  // namespace wavepool::moonshine
