#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "framework/error.h"
#include "framework/tensors/gguf_header.h"
#include "framework/tensors/tensor_file.h"
#include "framework/tensors/tensor_views.h"

namespace wavepool {
namespace {

class GgufSource final : public TensorFile {
  public:
    explicit GgufSource(std::shared_ptr<const MappedStorage> storage)
        : TensorFile(std::move(storage)) {
        const StoredBytes file = this->storage().bytes();
        try {
            GgufHeader header = parse_gguf(file.bytes);
            metadata_ = std::move(header.metadata);
            set_tensors(std::move(header.tensors));
        } catch (const Error& error) {
            invalid(error.what());
        }
    }

    [[nodiscard]] std::optional<MetadataValue> metadata(std::string_view key) const override {
        const auto found = metadata_.find(key);
        if (found == metadata_.end()) return std::nullopt;
        const StoredBytes file = storage().bytes();
        return decode_value(file.bytes, found->second);
    }

    /// Its place in a split checkpoint and how many files that has; 0 of 1 for a file that is
    /// whole.
    struct Split {
        std::int64_t index = 0;
        std::int64_t count = 1;
    };
    [[nodiscard]] Split split() const {
        if (!metadata("split.count")) return {};
        const Split split{integer("split.no"), integer("split.count")};
        if (split.count < 1 || split.index < 0 || split.index >= split.count) {
            invalid("it calls itself file " + std::to_string(split.index) + " of " +
                    std::to_string(split.count));
        }
        return split;
    }

    /// The file name without the number of the part, checked to have the form that splits have.
    [[nodiscard]] std::string stem(const Split& split) const {
        const std::string name = storage().file().filename().string();
        const std::string suffix = split_suffix(split.index, split.count);
        if (!name.ends_with(suffix) || name.size() == suffix.size()) {
            invalid("it is file " + std::to_string(split.index + 1) + " of " +
                    std::to_string(split.count) + ", but its name does not end with " + suffix);
        }
        return name.substr(0, name.size() - suffix.size());
    }

    [[nodiscard]] static std::string split_suffix(std::int64_t index, std::int64_t count) {
        char suffix[64];
        std::snprintf(suffix, sizeof(suffix), "-%05lld-of-%05lld.gguf",
                      static_cast<long long>(index + 1), static_cast<long long>(count));
        return suffix;
    }

    [[nodiscard]] std::filesystem::path folder() const { return storage().file().parent_path(); }
    [[nodiscard]] TensorSourceOptions options() const { return storage().options(); }

    [[noreturn]] void refuse(const std::string& what) const { invalid(what); }

  private:
    std::map<std::string, GgufValue, std::less<>> metadata_;
};

/// The files of the split that `part` belongs to, in order.
std::shared_ptr<const TensorSource> open_split(const GgufSource& part) {
    const auto [own_index, count] = part.split();
    const std::string stem = part.stem({own_index, count});
    std::vector<std::shared_ptr<const TensorSource>> parts;
    for (std::int64_t index = 0; index < count; ++index) {
        const auto file = part.folder() / (stem + GgufSource::split_suffix(index, count));
        auto opened = std::make_shared<const GgufSource>(
            std::make_shared<const MappedStorage>(file, part.options()));
        const auto found = opened->split();
        if (found.index != index || found.count != count) {
            opened->refuse("it calls itself file " + std::to_string(found.index) + " of " +
                           std::to_string(found.count));
        }
        parts.push_back(std::move(opened));
    }
    auto whole = make_composite_view(std::move(parts));
    if (whole->metadata("split.tensors.count") &&
        whole->integer("split.tensors.count") != static_cast<std::int64_t>(whole->names().size())) {
        part.refuse("the files of this split do not have as many tensors as they should");
    }
    return whole;
}

/// An i8 tensor NAME means scale · q + offset and needs both.
void require_companions(const TensorSource& source) {
    for (const std::string& name : source.names()) {
        if (source.find(name)->type != TensorType::kI8) continue;
        for (const char* suffix : {".scale", ".offset"}) {
            const auto companion = source.find(name + suffix);
            if (!companion || companion->elements != 1 || companion->type != TensorType::kF32) {
                throw Error(ErrorCode::kModelFileInvalid, source.description() + ": " + name +
                                                              " is i8 and needs " + name + suffix +
                                                              ", one f32 element");
            }
        }
    }
}

}  // namespace

std::shared_ptr<const TensorSource> open_gguf(std::shared_ptr<const MappedStorage> storage) {
    auto file = std::make_shared<const GgufSource>(std::move(storage));
    std::shared_ptr<const TensorSource> source = file;
    if (file->split().count > 1) source = open_split(*file);
    require_companions(*source);
    return source;
}

}  // namespace wavepool
