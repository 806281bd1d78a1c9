#include "models/whisper/network.h"

#ifdef WAVEPOOL_PACKED_KERNELS
#include "models/whisper/packed/packed_network.h"
#endif

namespace wavepool::whisper {

std::shared_ptr<const NetworkWeights> load_network_weights(
    [[maybe_unused]] const Checkpoint& checkpoint, [[maybe_unused]] Allocation allocation) {
#ifdef WAVEPOOL_PACKED_KERNELS
    return load_packed_network_weights(checkpoint, allocation);
#else
    return nullptr;
#endif
}

}  // namespace wavepool::whisper
