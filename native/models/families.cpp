#include "models/families.h"

#include <array>

#include "models/moonshine/moonshine.h"
#include "models/silero_vad/silero_vad.h"
#include "models/whisper/family.h"

namespace wavepool {

std::span<const Family> families() noexcept {
    static constexpr std::array kFamilies{
        Family{"moonshine", TaskKind::kAsr, &moonshine::load, &moonshine::plan},
        Family{"silero-vad", TaskKind::kVad, &silero_vad::load, &silero_vad::plan,
               &silero_vad::recognizes},
        Family{"whisper", TaskKind::kAsr, &whisper::load, &whisper::plan},
    };
    return kFamilies;
}

}  // namespace wavepool
