#include "models/families.h"

#include <array>

#include "models/moonshine/moonshine.h"
#include "models/silero_vad/silero_vad.h"

namespace wavepool {

std::span<const Family> families() noexcept {
    static constexpr std::array kFamilies{
        Family{"moonshine", TaskKind::kAsr, &moonshine::load},
        Family{"silero-vad", TaskKind::kVad, &silero_vad::load},
    };
    return kFamilies;
}

}  // namespace wavepool
