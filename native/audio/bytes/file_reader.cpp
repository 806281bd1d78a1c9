#include "audio/bytes/file_reader.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "framework/error.h"

namespace wavepool::audio {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

// O_NONBLOCK: opening a FIFO that nobody writes must not hang.
int open_for_reading(const std::filesystem::path& file) {
    const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        const bool unopenable_kind = errno == ENXIO || errno == ENODEV;
        throw Error(unopenable_kind ? ErrorCode::kInvalidRequest : ErrorCode::kInputNotFound,
                    file.string() + ": " + reason(errno));
    }
    return descriptor;
}

}  // namespace

FileReader::FileReader(const std::filesystem::path& file) : descriptor_(open_for_reading(file)) {
    struct stat status{};
    if (::fstat(descriptor_.get(), &status) != 0)
        throw Error(ErrorCode::kInputNotFound, file.string() + ": " + reason(errno));
    if (!S_ISREG(status.st_mode))
        throw Error(ErrorCode::kInvalidRequest, file.string() + ": not a regular file");
    size_ = static_cast<std::uint64_t>(status.st_size);
}

std::size_t FileReader::read_at(std::uint64_t position, std::span<std::uint8_t> out) const {
    std::size_t filled = 0;
    while (filled < out.size()) {
        const ssize_t count = ::pread(descriptor_.get(), out.data() + filled, out.size() - filled,
                                      static_cast<off_t>(position + filled));
        if (count == 0) break;
        if (count < 0) {
            if (errno == EINTR) continue;
            throw Error(ErrorCode::kInputUndecodable, "reading failed: " + reason(errno));
        }
        filled += static_cast<std::size_t>(count);
    }
    return filled;
}

std::size_t FileReader::read(std::span<std::uint8_t> out, const CancelToken& cancel) {
    if (cancel.cancelled()) throw Error(ErrorCode::kCancelled, "decoding was cancelled");
    const std::size_t count = read_at(position_, out);
    position_ += count;
    return count;
}

bool FileReader::skip(std::uint64_t bytes, const CancelToken&) {
    const std::uint64_t left = *remaining();
    position_ += bytes < left ? bytes : left;
    return bytes <= left;
}

std::size_t FileReader::peek(std::uint64_t ahead, std::span<std::uint8_t> out) {
    return ahead >= *remaining() ? 0 : read_at(position_ + ahead, out);
}

std::optional<std::uint64_t> FileReader::remaining() const {
    return position_ < size_ ? size_ - position_ : 0;
}

}  // namespace wavepool::audio
