#include "models/whisper/checkpoint/checkpoint_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "framework/tensors/ggml_bin_header.h"

namespace wavepool::whisper {
namespace {

void append(std::string& out, std::int64_t value) {
    const auto narrow = static_cast<std::int32_t>(value);
    out.append(reinterpret_cast<const char*>(&narrow), sizeof(narrow));
}

std::string beginning(const Checkpoint& checkpoint) {
    const Parameters& sizes = checkpoint.parameters();
    std::string out;
    append(out, kGgmlBinMagic);
    for (const std::int64_t value :
         {sizes.vocabulary, kAudioContext, sizes.state, sizes.audio_heads, sizes.audio_layers,
          kTextContext, sizes.state, sizes.text_heads, sizes.text_layers, sizes.mel_bins,
          std::int64_t{checkpoint.file_type()}}) {
        append(out, value);
    }
    const TensorInfo filters = *checkpoint.source().find(kGgmlBinMelFilters);
    for (const std::int64_t extent : filters.shape) append(out, extent);
    return out;
}

std::string vocabulary(const Checkpoint& checkpoint) {
    std::string out;
    append(out, static_cast<std::int64_t>(checkpoint.tokens().size()));
    for (const std::string& token : checkpoint.tokens()) {
        append(out, static_cast<std::int64_t>(token.size()));
        out += token;
    }
    return out;
}

std::string tensor_header(const std::string& name, const TensorInfo& info) {
    std::string out;
    append(out, static_cast<std::int64_t>(info.shape.size()));
    append(out, static_cast<std::int64_t>(name.size()));
    append(out, *ggml_number(info.type));
    for (auto extent = info.shape.rbegin(); extent != info.shape.rend(); ++extent) {
        append(out, *extent);
    }
    return out + name;
}

}  // namespace

CheckpointStream::CheckpointStream(const Checkpoint& checkpoint) {
    const TensorSource& source = checkpoint.source();
    parts_.push_back({beginning(checkpoint), source.stored(kGgmlBinMelFilters)});
    std::string header = vocabulary(checkpoint);
    for (const std::string& name : checkpoint.tensors()) {
        header += tensor_header(name, *source.find(name));
        parts_.push_back({std::exchange(header, {}), source.stored(name)});
    }
}

std::size_t CheckpointStream::read(std::span<std::byte> out) {
    const std::size_t wanted = out.size();
    while (!out.empty() && part_ < parts_.size()) {
        const Part& part = parts_[part_];
        const auto header = std::as_bytes(std::span(part.header));
        const auto left = position_ < header.size()
                              ? header.subspan(position_)
                              : part.numbers.bytes.subspan(position_ - header.size());
        const std::size_t count = std::min(left.size(), out.size());
        if (count > 0) std::memcpy(out.data(), left.data(), count);
        out = out.subspan(count);
        position_ += count;
        if (position_ == header.size() + part.numbers.bytes.size()) {
            ++part_;
            position_ = 0;
        }
    }
    // Whoever ignores that too little was read finds zeros.
    std::ranges::fill(out, std::byte{0});
    ended_ = ended_ || !out.empty();
    return wanted - out.size();
}

whisper_model_loader CheckpointStream::loader() {
    return {.context = this,
            .read =
                [](void* stream, void* out, std::size_t size) {
                    return static_cast<CheckpointStream*>(stream)->read(
                        {static_cast<std::byte*>(out), size});
                },
            .eof = [](void* stream) { return static_cast<CheckpointStream*>(stream)->ended_; },
            .close = [](void*) {}};
}

}  // namespace wavepool::whisper
