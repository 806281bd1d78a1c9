#pragma once

#include <whisper.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/tensors/mapped_storage.h"
#include "models/whisper/checkpoint/checkpoint.h"

namespace wavepool::whisper {

/// A checkpoint as the file that whisper.cpp reads. Everything that it steers by (sizes, lengths,
/// names, shapes) is written here from what was validated; of the file itself come the numbers of
/// the tensors alone. So nothing that happens to the file after the validation can mislead it.
class CheckpointStream {
  public:
    explicit CheckpointStream(const Checkpoint& checkpoint);
    CheckpointStream(const CheckpointStream&) = delete;
    CheckpointStream& operator=(const CheckpointStream&) = delete;

    /// Reads from this stream, which it must not outlive.
    [[nodiscard]] whisper_model_loader loader();

  private:
    struct Part {
        std::string header;  ///< before the numbers
        StoredBytes numbers;
    };

    std::size_t read(std::span<std::byte> out);

    std::vector<Part> parts_;
    std::size_t part_ = 0;
    std::size_t position_ = 0;  ///< in the part
    bool ended_ = false;        ///< somebody has tried to read beyond the end
};

}  // namespace wavepool::whisper
