#pragma once

#include <string_view>

namespace wavepool {

/// The build that results and admitted slot counts depend on. `identity` is a hash over the native
/// sources (tests and benchmarks excepted), ggml's version, the compiler, its flags and the kernel
/// path: it changes when any of them does, and not when the same tree is built again elsewhere.
struct BuildInfo {
    std::string_view identity;
    std::string_view ggml;
    std::string_view compiler;
    std::string_view flags;
    std::string_view backend;
};

[[nodiscard]] const BuildInfo& build_info() noexcept;

}  // namespace wavepool
