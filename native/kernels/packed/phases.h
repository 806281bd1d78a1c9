#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <span>

#include "framework/compute/backend.h"
#include "kernels/packed/arena.h"

namespace wavepool::kernels {

/// A computation in phases, each done by all threads of a backend together and over before the next
/// begins. A graph with one node per phase: the backend brings the threads, waits between phases
/// and polls for aborts there. Built once.
class Phases {
  public:
    /// The share of thread `index` of `threads`. Must not throw.
    using Phase = std::function<void(int index, int threads)>;

    /// `most` bounds the number of phases. Throws Error{kInsufficientMemory}.
    Phases(Arena& arena, std::size_t most);
    Phases(const Phases&) = delete;
    Phases& operator=(const Phases&) = delete;

    void add(Phase phase);
    [[nodiscard]] ggml_cgraph* graph() const noexcept { return graph_; }

  private:
    ContextPtr context_;
    ggml_cgraph* graph_ = nullptr;
    ggml_tensor* last_ = nullptr;
    std::span<std::int32_t> place_;  // of the tensors, which hold nothing
    std::deque<Phase> phases_;       // at addresses that stay
};

/// The part of `count` things that a thread does.
struct Share {
    Share(std::int64_t count, int index, int threads)
        : begin(count * index / threads), end(count * (index + 1) / threads) {}
    std::int64_t begin;
    std::int64_t end;
};

}  // namespace wavepool::kernels
