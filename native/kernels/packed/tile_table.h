#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "kernels/packed/tiles.h"

namespace wavepool::kernels {

/// For functions that use the instructions which avx512_tiles() asks for.
#define WAVEPOOL_AVX512 gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")

/// Few columns leave most of the processor waiting for the last sum: then successive groups are
/// added up apart. Integers do not mind the order.
constexpr int chains_avx512(int columns) { return columns == 1 ? 4 : columns <= 3 ? 2 : 1; }

/// Of Fixed<n>::multiply, which take exactly n columns, those for n = 1 … kMost.
template <typename Set, template <int> class Fixed, int kMost>
[[nodiscard]] constexpr Set tile_set() noexcept {
    return {[](auto panel, auto groups, auto columns, auto stride, auto count, auto out) {
                static constexpr auto kTable =
                    []<std::size_t... kIndex>(std::index_sequence<kIndex...> /*columns*/) {
                        return std::array{&Fixed<static_cast<int>(kIndex) + 1>::multiply...};
                    }(std::make_index_sequence<kMost>());
                kTable[static_cast<std::size_t>(count - 1)](panel, groups, columns, stride, out);
            },
            kMost};
}

}  // namespace wavepool::kernels
