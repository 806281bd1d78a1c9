#include "framework/gguf_file.h"

#include <fcntl.h>
#include <ggml.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <system_error>

#include "framework/error.h"
#include "framework/gguf_header.h"

namespace wavepool {
namespace {

/// A whole file, mapped read-only.
class Mapping {
  public:
    explicit Mapping(const std::filesystem::path& file) {
        const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (descriptor < 0) fail(ErrorCode::kInputNotFound, file, errno);
        struct stat status{};
        const bool regular = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
        size_ = regular ? static_cast<std::size_t>(status.st_size) : 0;
        if (size_ > 0) {
            data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
        }
        const int reason = errno;
        ::close(descriptor);
        if (size_ == 0) {
            throw Error(ErrorCode::kModelFileInvalid,
                        file.string() + (regular ? ": the file is empty" : ": not a regular file"));
        }
        if (data_ == MAP_FAILED) fail(ErrorCode::kModelFileInvalid, file, reason);
    }
    ~Mapping() { ::munmap(data_, size_); }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    [[nodiscard]] std::span<const std::byte> bytes() const {
        return {static_cast<const std::byte*>(data_), size_};
    }

  private:
    [[noreturn]] static void fail(ErrorCode code, const std::filesystem::path& file, int reason) {
        throw Error(code, file.string() + ": " + std::generic_category().message(reason));
    }

    void* data_ = nullptr;
    std::size_t size_ = 0;
};

template <typename T>
T load(std::span<const std::byte> bytes, std::size_t index = 0) {
    T value;
    std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
    return value;
}

const char* type_name(TensorType type) {
    switch (type) {
        case TensorType::kF32:
            return "f32";
        case TensorType::kF16:
            return "f16";
        case TensorType::kQ8_0:
            return "q8_0";
        case TensorType::kI8:
            return "i8";
    }
    return "unknown";
}

std::string shape_text(std::span<const std::int64_t> shape) {
    std::string text = "[";
    for (const std::int64_t extent : shape) {
        if (text.size() > 1) text += ", ";
        text += std::to_string(extent);
    }
    return text + "]";
}

void dequantize_q8_0(std::span<const std::byte> data, std::span<float> out) {
    constexpr std::size_t kBlock = 32;
    constexpr std::size_t kBlockBytes = sizeof(ggml_fp16_t) + kBlock;
    for (std::size_t i = 0; i < out.size(); ++i) {
        const auto block = data.subspan(i / kBlock * kBlockBytes, kBlockBytes);
        const float scale = ggml_fp16_to_fp32(load<ggml_fp16_t>(block));
        out[i] = scale * static_cast<float>(
                             load<std::int8_t>(block.subspan(sizeof(ggml_fp16_t)), i % kBlock));
    }
}

}  // namespace

struct GgufFile::Impl {
    explicit Impl(const std::filesystem::path& path) : file(path.string()), mapping(path) {
        try {
            header = parse_gguf(mapping.bytes());
        } catch (const Error& error) {
            invalid(error.what());
        }
    }

    [[noreturn]] void invalid(const std::string& what) const {
        throw Error(ErrorCode::kModelFileInvalid, file + ": " + what);
    }

    [[nodiscard]] const GgufValue& value(std::string_view key) const {
        const auto found = header.metadata.find(key);
        if (found == header.metadata.end()) invalid(std::string(key) + " is missing");
        return found->second;
    }

    [[nodiscard]] const GgufTensor& tensor(std::string_view name,
                                           std::span<const std::int64_t> shape) const {
        const auto found = header.tensors.find(name);
        if (found == header.tensors.end()) {
            invalid(std::string(name) + " is missing; expected shape " + shape_text(shape));
        }
        if (!std::ranges::equal(found->second.shape, shape)) {
            invalid(std::string(name) + " has shape " + shape_text(found->second.shape) +
                    ", expected " + shape_text(shape));
        }
        return found->second;
    }

    [[nodiscard]] Int8Tensor int8(std::string_view name, const GgufTensor& tensor) const {
        const auto companion = [&](const char* suffix) {
            const float value =
                load<float>(header.tensors.find(std::string(name) + suffix)->second.data);
            if (!std::isfinite(value)) invalid(std::string(name) + suffix + " is not finite");
            return value;
        };
        return {{reinterpret_cast<const std::int8_t*>(tensor.data.data()), tensor.data.size()},
                companion(".scale"),
                companion(".offset")};
    }

    std::string file;
    Mapping mapping;
    GgufHeader header;
};

GgufFile::GgufFile(const std::filesystem::path& file) : impl_(std::make_unique<Impl>(file)) {}
GgufFile::~GgufFile() = default;

std::string GgufFile::string(std::string_view key) const {
    const GgufValue& value = impl_->value(key);
    if (value.type != GgufType::kString) impl_->invalid(std::string(key) + " is not a string");
    return {reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size()};
}

std::int64_t GgufFile::integer(std::string_view key) const {
    const GgufValue& value = impl_->value(key);
    switch (value.type) {
        case GgufType::kUint8:
            return load<std::uint8_t>(value.bytes);
        case GgufType::kInt8:
            return load<std::int8_t>(value.bytes);
        case GgufType::kUint16:
            return load<std::uint16_t>(value.bytes);
        case GgufType::kInt16:
            return load<std::int16_t>(value.bytes);
        case GgufType::kUint32:
            return load<std::uint32_t>(value.bytes);
        case GgufType::kInt32:
            return load<std::int32_t>(value.bytes);
        case GgufType::kInt64:
            return load<std::int64_t>(value.bytes);
        case GgufType::kUint64:
            if (load<std::uint64_t>(value.bytes) <=
                static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
                return load<std::int64_t>(value.bytes);
            }
            break;
        case GgufType::kFloat32:
        case GgufType::kFloat64:
        case GgufType::kBool:
        case GgufType::kString:
        case GgufType::kArray:
            break;
    }
    impl_->invalid(std::string(key) + " is not an integer of 64 bits");
}

double GgufFile::number(std::string_view key) const {
    const GgufValue& value = impl_->value(key);
    double number = std::nan("");
    if (value.type == GgufType::kFloat32) number = load<float>(value.bytes);
    if (value.type == GgufType::kFloat64) number = load<double>(value.bytes);
    if (!std::isfinite(number)) impl_->invalid(std::string(key) + " is not a finite float");
    return number;
}

std::vector<std::string> GgufFile::strings(std::string_view key) const {
    const GgufValue& value = impl_->value(key);
    if (value.type != GgufType::kArray || value.element_type != GgufType::kString) {
        impl_->invalid(std::string(key) + " is not an array of strings");
    }
    return decode_strings(value);
}

std::optional<TensorInfo> GgufFile::find(std::string_view name) const {
    const auto found = impl_->header.tensors.find(name);
    if (found == impl_->header.tensors.end()) return std::nullopt;
    return TensorInfo{found->second.shape, type_name(found->second.type)};
}

std::vector<float> GgufFile::f32(std::string_view name, std::span<const std::int64_t> shape) const {
    const GgufTensor& tensor = impl_->tensor(name, shape);
    std::vector<float> values(tensor.elements);
    switch (tensor.type) {
        case TensorType::kF32:
            std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
            break;
        case TensorType::kF16:
            for (std::size_t i = 0; i < values.size(); ++i) {
                values[i] = ggml_fp16_to_fp32(load<ggml_fp16_t>(tensor.data, i));
            }
            break;
        case TensorType::kQ8_0:
            dequantize_q8_0(tensor.data, values);
            break;
        case TensorType::kI8: {
            const Int8Tensor stored = impl_->int8(name, tensor);
            for (std::size_t i = 0; i < values.size(); ++i) {
                values[i] = stored.scale * static_cast<float>(stored.values[i]) + stored.offset;
            }
            break;
        }
    }
    for (const float value : values) {
        if (!std::isfinite(value)) {
            impl_->invalid(std::string(name) + " holds a number that is not finite");
        }
    }
    return values;
}

GgufFile::Int8Tensor GgufFile::i8(std::string_view name,
                                  std::span<const std::int64_t> shape) const {
    const GgufTensor& tensor = impl_->tensor(name, shape);
    if (tensor.type != TensorType::kI8) {
        impl_->invalid(std::string(name) + " is " + type_name(tensor.type) + ", expected i8");
    }
    return impl_->int8(name, tensor);
}

}  // namespace wavepool
