#include "audio/bytes/pipe_reader.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>

#include "framework/error.h"

namespace wavepool::audio {
namespace {

using Clock = std::chrono::steady_clock;

// How soon a raised token is noticed while no byte comes.
constexpr int kCancelPollMs = 50;

}  // namespace

PipeReader::PipeReader(int descriptor, int stall_timeout_ms)
    : descriptor_(descriptor), stall_timeout_ms_(stall_timeout_ms) {
    if (descriptor < 0 || stall_timeout_ms <= 0)
        throw Error(ErrorCode::kInvalidRequest, "a pipe needs a descriptor and a stall timeout");
}

void PipeReader::wait_readable(const CancelToken& cancel) const {
    const auto deadline = Clock::now() + std::chrono::milliseconds(stall_timeout_ms_);
    for (;;) {
        if (cancel.cancelled()) throw Error(ErrorCode::kCancelled, "decoding was cancelled");
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
        const int timeout = static_cast<int>(std::clamp<long long>(left + 1, 0, kCancelPollMs));
        pollfd entry{descriptor_.get(), POLLIN, 0};
        const int ready = ::poll(&entry, 1, timeout);
        if (ready > 0) return;
        if (ready < 0 && errno != EINTR)
            throw Error(ErrorCode::kInputUndecodable, "waiting for the decoder failed: " +
                                                          std::generic_category().message(errno));
        if (Clock::now() >= deadline)
            throw Error(
                ErrorCode::kInputUndecodable,
                "the decoder sent nothing for " + std::to_string(stall_timeout_ms_) + " ms");
    }
}

std::size_t PipeReader::read(std::span<std::uint8_t> out, const CancelToken& cancel) {
    std::size_t filled = 0;
    while (filled < out.size()) {
        wait_readable(cancel);
        const ssize_t count = ::read(descriptor_.get(), out.data() + filled, out.size() - filled);
        if (count == 0) break;
        if (count < 0) {
            if (errno == EINTR || errno == EAGAIN) continue;
            throw Error(ErrorCode::kInputUndecodable, "reading from the decoder failed: " +
                                                          std::generic_category().message(errno));
        }
        filled += static_cast<std::size_t>(count);
    }
    return filled;
}

bool PipeReader::skip(std::uint64_t bytes, const CancelToken& cancel) {
    std::array<std::uint8_t, 4096> scrap;
    while (bytes > 0) {
        const auto step = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, scrap.size()));
        if (read(std::span(scrap).first(step), cancel) < step) return false;
        bytes -= step;
    }
    return true;
}

std::size_t PipeReader::peek(std::uint64_t, std::span<std::uint8_t>) { return 0; }

std::optional<std::uint64_t> PipeReader::remaining() const { return std::nullopt; }

}  // namespace wavepool::audio
