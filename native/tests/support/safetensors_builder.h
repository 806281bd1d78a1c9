#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace wavepool::testing {

/// Writes Safetensors as the format's description has it, for tests.
class SafetensorsBuilder {
  public:
    SafetensorsBuilder& metadata(const std::string& key, const std::string& value);
    /// `shape` is outermost first; `dtype` is the format's name.
    SafetensorsBuilder& tensor(const std::string& name, const std::vector<std::int64_t>& shape,
                               const std::string& dtype, const std::string& data);
    SafetensorsBuilder& f32(const std::string& name, const std::vector<std::int64_t>& shape,
                            const std::vector<float>& values);

    [[nodiscard]] std::string bytes() const;
    /// Any header in front of any data.
    [[nodiscard]] static std::string bytes(const std::string& header, const std::string& data);

  private:
    std::map<std::string, std::string> metadata_;
    std::string tensors_;  ///< their part of the header
    std::string data_;
};

/// The bytes of values.
template <typename T>
std::string raw_bytes(const std::vector<T>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace wavepool::testing
