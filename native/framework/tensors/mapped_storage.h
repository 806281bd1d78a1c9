#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>

namespace wavepool {

struct TensorSourceOptions {
    /// Whether several threads may read from the source, and release its storage, at once. Never
    /// changes after opening.
    bool synchronized = false;
};

/// A piece of memory and what keeps it there.
struct StoredBytes {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> storage;  ///< `bytes` are valid as long as this is held
};

/// A regular file that is mapped read-only when somebody wants its bytes. It stays open, so a file
/// of the same name that takes its place is never read.
///
/// Synchronized storage may be used by any threads at once: a lock is held while the mapping is
/// made, handed out or given up, never while bytes are read, which stay mapped until their last
/// reader is done. Otherwise one thread at a time.
class MappedStorage {
  public:
    /// Throws Error{kInputNotFound | kModelFileInvalid}; an empty file is invalid.
    MappedStorage(const std::filesystem::path& file, TensorSourceOptions options);
    ~MappedStorage();
    MappedStorage(const MappedStorage&) = delete;
    MappedStorage& operator=(const MappedStorage&) = delete;

    [[nodiscard]] const std::filesystem::path& file() const noexcept { return file_; }
    [[nodiscard]] const TensorSourceOptions& options() const noexcept { return options_; }

    /// The whole file, mapped now if it is not. Throws Error{kModelFileInvalid} when the file has
    /// changed since it was opened.
    [[nodiscard]] StoredBytes bytes() const;

    /// Gives up the mapping; the next bytes() maps again.
    void release() const noexcept;

  private:
    [[nodiscard]] std::unique_lock<std::mutex> lock() const;

    // Constant after construction.
    std::filesystem::path file_;
    TensorSourceOptions options_;
    int descriptor_ = -1;
    std::size_t size_ = 0;
    std::int64_t modified_ns_ = 0;

    // Protected by mutex_ if synchronized.
    mutable std::mutex mutex_;
    mutable std::shared_ptr<const std::byte> mapping_;
};

}  // namespace wavepool
