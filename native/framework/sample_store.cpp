#include "framework/sample_store.h"

#include <algorithm>

#include "framework/error.h"

namespace wavepool {

void SampleStore::append(std::span<const float> samples) {
    const std::scoped_lock lock(mutex_);
    while (!samples.empty()) {
        if (chunks_.empty()) first_chunk_start_ = end_;
        if (chunks_.empty() || chunks_.back().size() == kChunkSamples) {
            chunks_.emplace_back().reserve(kChunkSamples);
        }
        std::vector<float>& chunk = chunks_.back();
        const std::size_t count = std::min(samples.size(), kChunkSamples - chunk.size());
        chunk.insert(chunk.end(), samples.begin(), samples.begin() + static_cast<long>(count));
        end_ += static_cast<std::int64_t>(count);
        samples = samples.subspan(count);
    }
}

void SampleStore::copy(std::int64_t start, std::span<float> out) const {
    const std::scoped_lock lock(mutex_);
    const bool resident =
        start >= begin_ && start <= end_ && out.size() <= static_cast<std::uint64_t>(end_ - start);
    if (!resident) {
        throw Error(ErrorCode::kInvalidRequest,
                    "samples " + std::to_string(start) + " + " + std::to_string(out.size()) +
                        " are not resident: the input holds " + std::to_string(begin_) + " to " +
                        std::to_string(end_));
    }
    auto offset = static_cast<std::size_t>(start - first_chunk_start_);
    while (!out.empty()) {
        const std::vector<float>& chunk = chunks_[offset / kChunkSamples];
        const std::size_t within = offset % kChunkSamples;
        const std::size_t count = std::min(out.size(), chunk.size() - within);
        std::copy_n(chunk.begin() + static_cast<long>(within), count, out.begin());
        out = out.subspan(count);
        offset += count;
    }
}

void SampleStore::release_before(std::int64_t sample) {
    const std::scoped_lock lock(mutex_);
    begin_ = std::max(begin_, std::min(sample, end_));
    while (!chunks_.empty()) {
        const auto chunk_end =
            first_chunk_start_ + static_cast<std::int64_t>(chunks_.front().size());
        if (chunk_end > begin_) break;
        chunks_.pop_front();
        first_chunk_start_ = chunk_end;
    }
}

std::int64_t SampleStore::begin() const {
    const std::scoped_lock lock(mutex_);
    return begin_;
}

std::int64_t SampleStore::end() const {
    const std::scoped_lock lock(mutex_);
    return end_;
}

std::size_t SampleStore::resident_bytes() const {
    const std::scoped_lock lock(mutex_);
    return chunks_.size() * kChunkSamples * sizeof(float);
}

}  // namespace wavepool
