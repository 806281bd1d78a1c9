#include "models/moonshine/cache.h"

#include <cstring>

#include "framework/error.h"

namespace wavepool::moonshine {
namespace {

void copy_positions(const ggml_tensor* tensor, std::int64_t from, std::int64_t to,
                    std::int64_t positions) {
    auto* data = static_cast<std::byte*>(tensor->data);
    std::memcpy(data + static_cast<std::size_t>(to) * tensor->nb[2],
                data + static_cast<std::size_t>(from) * tensor->nb[2],
                static_cast<std::size_t>(positions) * tensor->nb[1]);
}

}  // namespace

Cache::Cache(const Config& config, std::int64_t rows, std::int64_t tokens, std::int64_t frames,
             Allocation allocation)
    : rows_(rows), tokens_(tokens), frames_(frames), filled_(static_cast<std::size_t>(rows)) {
    const auto blocks = static_cast<std::size_t>(config.decoder_blocks);
    context_.reset(ggml_init({4 * blocks * ggml_tensor_overhead(), nullptr, true}));
    if (!context_) throw Error(ErrorCode::kInsufficientMemory, "allocating a session");
    const auto make = [&](ggml_type type, std::int64_t positions) {
        return ggml_new_tensor_3d(context_.get(), type, config.width, positions, rows);
    };
    for (std::size_t i = 0; i < blocks; ++i) {
        blocks_.push_back({.self_key = make(GGML_TYPE_F16, tokens),
                           .self_value = make(GGML_TYPE_BF16, tokens),
                           .cross_key = make(GGML_TYPE_F16, frames),
                           .cross_value = make(GGML_TYPE_BF16, frames)});
    }
    bytes_ = place_tensors(context_.get(), allocation, buffer_,
                           "allocating the key and value cache of a session");
    if (buffer_) ggml_backend_buffer_clear(buffer_.get(), 0);
}

void Cache::move_row(std::int64_t from, std::int64_t to) {
    if (from == to) return;
    const Row source = row(from);
    for (const BlockCache& block : blocks_) {
        copy_positions(block.self_key, from, to, source.tokens);
        copy_positions(block.self_value, from, to, source.tokens);
        copy_positions(block.cross_key, from, to, source.frames);
        copy_positions(block.cross_value, from, to, source.frames);
    }
    row(to) = source;
}

}  // namespace wavepool::moonshine
