#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

#include "framework/error.h"
#include "framework/sessions/session.h"
#include "models/silero_vad/weights.h"

namespace wavepool::silero_vad {

/// What one window leaves to the next.
struct Memory {
    std::array<float, kHidden> hidden{};
    std::array<float, kHidden> cell{};
    std::array<float, kInputSamples> input{};  ///< its end is the context of the next one
    std::array<float, kGates> gates{};         ///< what the encoder makes of `input`
    bool encoded = false;                      ///< `gates` are known
};

/// The state of one input. Its requests follow each other without gap or overlap; one that does not
/// end with a whole window is the last one.
class VadState final : public TaskState {
  public:
    /// Exclusive use of a state, from construction to destruction.
    class Claim {
      public:
        /// Throws Error{kInvalidRequest} while another request uses the state.
        explicit Claim(VadState& state) : state_(&state) {
            if (state.in_use_.exchange(true, std::memory_order_acquire)) {
                throw Error(ErrorCode::kInvalidRequest,
                            "the state is in use by another request: one at a time may use it");
            }
        }
        Claim(Claim&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
        Claim& operator=(Claim&& other) noexcept {
            std::swap(state_, other.state_);
            return *this;
        }
        ~Claim() { release(); }

        /// Ends the use early; idempotent. The claim refers to nothing afterwards.
        void release() noexcept {
            if (state_ != nullptr) state_->in_use_.store(false, std::memory_order_release);
            state_ = nullptr;
        }

        [[nodiscard]] VadState& operator*() const noexcept { return *state_; }
        [[nodiscard]] VadState* operator->() const noexcept { return state_; }

      private:
        VadState* state_;
    };

    // Only whoever holds the claim touches these.
    Memory memory;
    std::optional<std::int64_t> next_sample;  ///< where the next request starts; none: anywhere
    bool ended = false;                       ///< a request ended with a part of a window

  private:
    std::atomic<bool> in_use_{false};
};

}  // namespace wavepool::silero_vad
