#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "framework/tensors/tensor_source.h"

namespace wavepool {

struct ResourceBundleOptions {
    /// Whether several threads may open sources of the bundle at once. Whether several may read
    /// from one source is said by TensorSourceOptions.
    bool synchronized = false;
};

/// The files of one package under the names that its parts know them by. Register everything, then
/// publish it as const; from then on it does not change but for its caches.
class ResourceBundle {
  public:
    explicit ResourceBundle(std::filesystem::path root, ResourceBundleOptions options = {});
    ResourceBundle(const ResourceBundle&) = delete;
    ResourceBundle& operator=(const ResourceBundle&) = delete;

    /// Registers a file by its path relative to the root, which it must not leave. Of a tensor
    /// file, `prefix` selects the tensors of one component. Throws Error{kInvalidRequest} for an
    /// empty or duplicate id, Error{kInputNotFound} for a file that is not there.
    void add(const std::string& id, const std::filesystem::path& file, std::string prefix = {});

    /// The file of an id. Throws Error{kInvalidRequest} for an unknown one, as does the next.
    [[nodiscard]] const std::filesystem::path& file(std::string_view id) const;

    /// The source of an id: the same object each time it is asked for with the same options, never
    /// one that was opened with others. Ids of one file share its storage. Throws what
    /// open_tensor_source() throws.
    [[nodiscard]] std::shared_ptr<const TensorSource> open_tensor_source(
        std::string_view id, TensorSourceOptions options = {}) const;

  private:
    using SourcePtr = std::shared_ptr<const TensorSource>;
    template <typename Name>
    using Cache = std::map<std::pair<Name, bool>, SourcePtr>;

    struct Resource {
        std::filesystem::path file;  ///< canonical
        std::string prefix;
    };

    [[nodiscard]] const Resource& resource(std::string_view id) const;

    // Constant once published.
    std::filesystem::path root_;
    ResourceBundleOptions options_;
    std::map<std::string, Resource, std::less<>> resources_;

    // Protected by mutex_ if synchronized; the keys are the name or path, and the policy.
    mutable std::mutex mutex_;
    mutable Cache<std::string> by_id_;
    mutable Cache<std::filesystem::path> by_path_;
};

}  // namespace wavepool
