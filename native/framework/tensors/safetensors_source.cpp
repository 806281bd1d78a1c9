#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "framework/error.h"
#include "framework/json.h"
#include "framework/tensors/safetensors_header.h"
#include "framework/tensors/tensor_file.h"
#include "framework/tensors/tensor_views.h"

namespace wavepool {
namespace {

class SafetensorsSource final : public TensorFile {
  public:
    explicit SafetensorsSource(std::shared_ptr<const MappedStorage> storage)
        : TensorFile(std::move(storage)) {
        const StoredBytes file = this->storage().bytes();
        try {
            SafetensorsHeader header = parse_safetensors(file.bytes);
            metadata_ = std::move(header.metadata);
            set_tensors(std::move(header.tensors));
        } catch (const Error& error) {
            invalid(error.what());
        }
    }

    [[nodiscard]] std::optional<MetadataValue> metadata(std::string_view key) const override {
        const auto found = metadata_.find(key);
        if (found == metadata_.end()) return std::nullopt;
        return found->second;
    }

  private:
    std::map<std::string, std::string, std::less<>> metadata_;
};

/// The names of the tensors in each file.
using Shards = std::map<std::string, std::vector<std::string>>;

Shards read_index(const MappedStorage& index) {
    const StoredBytes stored = index.bytes();
    const auto invalid = [&](const std::string& what) {
        throw Error(ErrorCode::kModelFileInvalid, index.file().string() + ": " + what);
    };
    if (stored.bytes.size() > kMaxSafetensorsHeaderBytes) invalid("too large for an index");
    nlohmann::json json;
    try {
        json =
            parse_json({reinterpret_cast<const char*>(stored.bytes.data()), stored.bytes.size()});
    } catch (const Error& error) {
        invalid(error.what());
    }
    const auto map = json.find("weight_map");
    if (map == json.end() || !map->is_object() || map->empty()) invalid("no weight_map");
    Shards shards;
    for (const auto& [name, shard] : map->items()) {
        if (!shard.is_string()) invalid(name + " is in no file");
        const auto& file = shard.get_ref<const std::string&>();
        // A plain name: an index must not reach into other folders.
        if (file.empty() || file == "." || file == ".." || file.find('/') != std::string::npos) {
            invalid("\"" + file + "\" is not the name of a file beside the index");
        }
        shards[file].push_back(name);
    }
    return shards;
}

}  // namespace

std::shared_ptr<const TensorSource> open_safetensors(std::shared_ptr<const MappedStorage> storage) {
    return std::make_shared<const SafetensorsSource>(std::move(storage));
}

std::shared_ptr<const TensorSource> open_safetensors_index(const MappedStorage& index) {
    std::vector<CompositePart> parts;
    for (auto& [file, names] : read_index(index)) {
        auto shard = open_safetensors(std::make_shared<const MappedStorage>(
            index.file().parent_path() / file, index.options()));
        parts.push_back({std::move(shard), std::move(names)});
    }
    return make_composite_view(std::move(parts));
}

}  // namespace wavepool
