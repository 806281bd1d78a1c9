#include "framework/tensors/resource_bundle.h"

#include <algorithm>
#include <system_error>

#include "framework/error.h"
#include "framework/tensors/tensor_views.h"

namespace wavepool {

ResourceBundle::ResourceBundle(std::filesystem::path root, ResourceBundleOptions options)
    : root_(std::move(root)), options_(options) {}

void ResourceBundle::add(const std::string& id, const std::filesystem::path& file,
                         std::string prefix) {
    if (id.empty()) throw Error(ErrorCode::kInvalidRequest, "a resource without an id");
    if (file.is_absolute() || std::ranges::find(file, "..") != file.end()) {
        throw Error(ErrorCode::kInvalidRequest, id + ": " + file.string() + " leaves the package");
    }
    std::error_code failure;
    auto canonical = std::filesystem::canonical(root_ / file, failure);
    if (failure || std::filesystem::is_directory(canonical)) {
        throw Error(ErrorCode::kInputNotFound,
                    id + ": " + (root_ / file).string() + " is not a file that is there");
    }
    if (!resources_.emplace(id, Resource{std::move(canonical), std::move(prefix)}).second) {
        throw Error(ErrorCode::kInvalidRequest, "the resource " + id + " is there twice");
    }
}

const ResourceBundle::Resource& ResourceBundle::resource(std::string_view id) const {
    const auto found = resources_.find(id);
    if (found == resources_.end()) {
        throw Error(ErrorCode::kInvalidRequest, "there is no resource \"" + std::string(id) + "\"");
    }
    return found->second;
}

const std::filesystem::path& ResourceBundle::file(std::string_view id) const {
    return resource(id).file;
}

std::shared_ptr<const TensorSource> ResourceBundle::open_tensor_source(
    std::string_view id, TensorSourceOptions options) const {
    const Resource& wanted = resource(id);
    std::unique_lock lock(mutex_, std::defer_lock);
    if (options_.synchronized) lock.lock();
    const std::pair key(std::string(id), options.synchronized);
    if (const auto found = by_id_.find(key); found != by_id_.end()) return found->second;

    const std::pair path_key(wanted.file, options.synchronized);
    auto base = by_path_.find(path_key);
    if (base == by_path_.end()) {
        base = by_path_.emplace(path_key, wavepool::open_tensor_source(wanted.file, options)).first;
    }
    SourcePtr source = base->second;
    if (!wanted.prefix.empty()) source = make_prefix_view(std::move(source), wanted.prefix);
    return by_id_.emplace(key, std::move(source)).first->second;
}

}  // namespace wavepool
