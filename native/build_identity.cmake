# Writes build_info.cpp: the build identity and what it was made from. Run as a script whenever a native source changes:
#   cmake -DSOURCES=<folder> -DOUTPUT=<file> -DGGML=… -DCOMPILER=… -DFLAGS=… -DKERNELS=… -P build_identity.cmake
set(patterns CMakeLists.txt ggml.cmake build_identity.cmake)
foreach(folder framework kernels audio models binding)
  list(APPEND patterns "${folder}/*.h" "${folder}/*.cpp")
endforeach()
list(TRANSFORM patterns PREPEND "${SOURCES}/")
file(GLOB_RECURSE files RELATIVE "${SOURCES}" ${patterns})
list(SORT files)

set(content "")
foreach(file ${files})
  file(SHA256 "${SOURCES}/${file}" hash)
  string(APPEND content "${file} ${hash}\n")
endforeach()
string(SHA256 identity "${content}ggml ${GGML}\ncompiler ${COMPILER}\nflags ${FLAGS}\nkernels ${KERNELS}\n")

set(text "#include \"framework/build_info.h\"

namespace wavepool {

const BuildInfo& build_info() noexcept {
    static constexpr BuildInfo kBuildInfo{
        .identity = \"${identity}\",
        .ggml = \"${GGML}\",
        .compiler = \"${COMPILER}\",
        .flags = \"${FLAGS}\",
        .backend = \"cpu\",
    };
    return kBuildInfo;
}

}  // namespace wavepool
")
# The time of writing also satisfies the build system when the identity is the same as before.
file(WRITE "${OUTPUT}" "${text}")
