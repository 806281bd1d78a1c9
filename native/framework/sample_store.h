#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

namespace wavepool {

/// Every session of the first families consumes this rate.
inline constexpr int kSampleRate = 16000;

/// The decoded samples of one input: 16 kHz mono f32 in [-1, 1], addressed by their absolute sample
/// index. A decoder appends at the end; readers copy ranges; whoever knows that a prefix is no
/// longer needed releases it, so the resident part stays small whatever the length of the input.
/// Thread-safe: every method may be called from any thread.
class SampleStore {
  public:
    SampleStore() = default;
    SampleStore(const SampleStore&) = delete;
    SampleStore& operator=(const SampleStore&) = delete;

    void append(std::span<const float> samples);

    /// Copies [start, start + out.size()). Throws kInvalidRequest unless the whole range is
    /// resident.
    void copy(std::int64_t start, std::span<float> out) const;

    /// Forgets everything before `sample`; what is already forgotten, or not yet there, is ignored.
    void release_before(std::int64_t sample);

    [[nodiscard]] std::int64_t begin() const;  ///< first resident sample
    [[nodiscard]] std::int64_t end() const;    ///< one past the last appended sample
    [[nodiscard]] std::size_t resident_bytes() const;

  private:
    static constexpr std::size_t kChunkSamples = kSampleRate;

    mutable std::mutex mutex_;
    // Protected by mutex_: all chunks are full but the last; the first one starts at
    // first_chunk_start_.
    std::deque<std::vector<float>> chunks_;
    std::int64_t first_chunk_start_ = 0;
    std::int64_t begin_ = 0;
    std::int64_t end_ = 0;
};

}  // namespace wavepool
