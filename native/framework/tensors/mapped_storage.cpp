#include "framework/tensors/mapped_storage.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "framework/error.h"

namespace wavepool {
namespace {

[[noreturn]] void fail(ErrorCode code, const std::filesystem::path& file, int reason) {
    throw Error(code, file.string() + ": " + std::generic_category().message(reason));
}

[[noreturn]] void invalid(const std::filesystem::path& file, const char* what) {
    throw Error(ErrorCode::kModelFileInvalid, file.string() + ": " + what);
}

std::int64_t modified_ns(const struct stat& status) {
#ifdef __APPLE__
    const timespec& time = status.st_mtimespec;
#else
    const timespec& time = status.st_mtim;
#endif
    return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

MappedStorage::MappedStorage(const std::filesystem::path& file, TensorSourceOptions options)
    : file_(file), options_(options) {
    descriptor_ = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor_ < 0) fail(ErrorCode::kInputNotFound, file, errno);
    struct stat status{};
    const bool regular = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
    if (!regular || status.st_size == 0) {
        ::close(descriptor_);
        invalid(file, regular ? "the file is empty" : "not a regular file");
    }
    size_ = static_cast<std::size_t>(status.st_size);
    modified_ns_ = modified_ns(status);
}

MappedStorage::~MappedStorage() { ::close(descriptor_); }

std::unique_lock<std::mutex> MappedStorage::lock() const {
    return options_.synchronized ? std::unique_lock(mutex_) : std::unique_lock<std::mutex>();
}

StoredBytes MappedStorage::bytes() const {
    const auto held = lock();
    if (!mapping_) {
        struct stat status{};
        if (::fstat(descriptor_, &status) != 0) fail(ErrorCode::kModelFileInvalid, file_, errno);
        // The header that was checked must describe what is mapped.
        if (static_cast<std::size_t>(status.st_size) != size_ ||
            modified_ns(status) != modified_ns_) {
            invalid(file_, "the file has changed since it was opened");
        }
        void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor_, 0);
        if (data == MAP_FAILED) fail(ErrorCode::kModelFileInvalid, file_, errno);
        mapping_.reset(static_cast<const std::byte*>(data), [size = size_](const std::byte* data) {
            ::munmap(const_cast<std::byte*>(data), size);
        });
    }
    return {{mapping_.get(), size_}, mapping_};
}

void MappedStorage::release() const noexcept {
    const auto held = lock();
    mapping_.reset();
}

}  // namespace wavepool
