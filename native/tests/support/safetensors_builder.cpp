#include "tests/support/safetensors_builder.h"

#include <nlohmann/json.hpp>

namespace wavepool::testing {

SafetensorsBuilder& SafetensorsBuilder::metadata(const std::string& key, const std::string& value) {
    metadata_[key] = value;
    return *this;
}

SafetensorsBuilder& SafetensorsBuilder::tensor(const std::string& name,
                                               const std::vector<std::int64_t>& shape,
                                               const std::string& dtype, const std::string& data) {
    const nlohmann::json entry{{"dtype", dtype},
                               {"shape", shape},
                               {"data_offsets", {data_.size(), data_.size() + data.size()}}};
    // The header is built as text, so that a test can write a name twice.
    if (!tensors_.empty()) tensors_ += ",";
    tensors_ += nlohmann::json(name).dump() + ":" + entry.dump();
    data_ += data;
    return *this;
}

SafetensorsBuilder& SafetensorsBuilder::f32(const std::string& name,
                                            const std::vector<std::int64_t>& shape,
                                            const std::vector<float>& values) {
    return tensor(name, shape, "F32", raw_bytes(values));
}

std::string SafetensorsBuilder::bytes() const {
    std::string header = "{";
    if (!metadata_.empty()) {
        header += "\"__metadata__\":" + nlohmann::json(metadata_).dump();
        if (!tensors_.empty()) header += ",";
    }
    return bytes(header + tensors_ + "}", data_);
}

std::string SafetensorsBuilder::bytes(const std::string& header, const std::string& data) {
    return raw_bytes(std::vector<std::uint64_t>{header.size()}) + header + data;
}

}  // namespace wavepool::testing
