#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "framework/compute/backend.h"

namespace wavepool::kernels {

/// Zeroed blocks of memory that live as long as the arena, aligned for vectors. A planned arena
/// only counts: its spans have a size and must not be used.
class Arena {
  public:
    static constexpr std::size_t kAlignment = 64;

    explicit Arena(Allocation allocation) : allocation_(allocation) {}

    /// Throws std::bad_alloc.
    template <typename T>
    [[nodiscard]] std::span<T> take(std::int64_t count) {
        const std::size_t size = (static_cast<std::size_t>(count) * sizeof(T) + kAlignment - 1) /
                                 kAlignment * kAlignment;
        bytes_ += size;
        if (allocation_ == Allocation::kPlanned) return {};
        blocks_.emplace_back(
            static_cast<std::byte*>(::operator new(size, std::align_val_t{kAlignment})));
        std::memset(blocks_.back().get(), 0, size);
        return {reinterpret_cast<T*>(blocks_.back().get()), static_cast<std::size_t>(count)};
    }

    [[nodiscard]] Allocation allocation() const noexcept { return allocation_; }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  private:
    struct Release {
        void operator()(std::byte* block) const noexcept {
            ::operator delete(block, std::align_val_t{kAlignment});
        }
    };

    Allocation allocation_;
    std::size_t bytes_ = 0;
    std::vector<std::unique_ptr<std::byte, Release>> blocks_;
};

}  // namespace wavepool::kernels
