#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "framework/error.h"
#include "framework/tensors/ggml_bin_header.h"
#include "framework/tensors/tensor_file.h"

namespace wavepool {
namespace {

class GgmlBinSource final : public TensorFile {
  public:
    explicit GgmlBinSource(std::shared_ptr<const MappedStorage> storage)
        : TensorFile(std::move(storage)) {
        const StoredBytes file = this->storage().bytes();
        try {
            GgmlBinHeader header = parse_ggml_bin(file.bytes);
            parameters_ = header.parameters;
            tokens_ = std::move(header.tokens);
            set_tensors(std::move(header.tensors));
        } catch (const Error& error) {
            invalid(error.what());
        }
    }

    [[nodiscard]] std::optional<MetadataValue> metadata(std::string_view key) const override {
        if (key == "general.architecture") return std::string("whisper");
        if (key == kGgmlBinTokens) return tokens_;
        const auto found = std::ranges::find(kGgmlBinParameters, key);
        if (found == kGgmlBinParameters.end()) return std::nullopt;
        const auto index = static_cast<std::size_t>(found - kGgmlBinParameters.begin());
        return std::int64_t{parameters_[index]};
    }

  private:
    std::array<std::int32_t, kGgmlBinParameters.size()> parameters_{};
    std::vector<std::string> tokens_;
};

}  // namespace

std::shared_ptr<const TensorSource> open_ggml_bin(std::shared_ptr<const MappedStorage> storage) {
    return std::make_shared<const GgmlBinSource>(std::move(storage));
}

}  // namespace wavepool
