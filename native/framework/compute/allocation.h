#pragma once

namespace wavepool {

/// Whether memory is allocated or only its size computed, with tensors that must not be used.
enum class Allocation { kReal, kPlanned };

}  // namespace wavepool
