# ggml's CPU backend, built statically from the source tree inside the pinned npm package nodejs-whisper.
# Only the sources of that package are used, never its JavaScript.
# Where the package is installed for somebody, npm may have put what it needs elsewhere.
set(NODE_MODULES_DIR "${CMAKE_SOURCE_DIR}/../node_modules" CACHE PATH "folder of the npm packages")
get_filename_component(NODE_MODULES "${NODE_MODULES_DIR}" REALPATH)
set(WHISPER_CPP_DIR "${NODE_MODULES}/nodejs-whisper/cpp/whisper.cpp" CACHE PATH "whisper.cpp source tree")
if(NOT EXISTS "${WHISPER_CPP_DIR}/ggml/CMakeLists.txt")
  message(FATAL_ERROR "ggml's sources are missing at ${WHISPER_CPP_DIR}: run `npm ci` first")
endif()

set(BUILD_SHARED_LIBS OFF)
set(GGML_STATIC OFF CACHE BOOL "" FORCE)
set(GGML_BUILD_TESTS OFF CACHE BOOL "" FORCE)
set(GGML_BUILD_EXAMPLES OFF CACHE BOOL "" FORCE)
set(GGML_CCACHE OFF CACHE BOOL "" FORCE)
set(GGML_OPENMP OFF CACHE BOOL "" FORCE)     # persistent threadpools instead: ThreadSanitizer understands them
set(GGML_LLAMAFILE ON CACHE BOOL "" FORCE)   # the fast matrix kernels; off by default in whisper.cpp's build
set(GGML_BLAS OFF CACHE BOOL "" FORCE)
set(GGML_ACCELERATE OFF CACHE BOOL "" FORCE) # one summation order on every machine
set(GGML_NATIVE OFF CACHE BOOL "" FORCE)     # x86-64-v3 on x86, the same bits wherever the binary is moved
foreach(feature SSE42 AVX AVX2 BMI2 FMA F16C)
  set(GGML_${feature} ON CACHE BOOL "" FORCE)
endforeach()

add_subdirectory("${WHISPER_CPP_DIR}/ggml" ggml EXCLUDE_FROM_ALL)
foreach(target ggml-base ggml-cpu ggml)
  target_compile_options(${target} PRIVATE -w "-ffile-prefix-map=${WHISPER_CPP_DIR}=whisper.cpp")
  if(NATIVE_SANITIZE MATCHES "undefined")
    # AddressSanitizer watches what we and whisper.cpp do with memory; instrumented, ggml's loops alone take minutes to build and run.
    target_compile_options(${target} PRIVATE -fno-sanitize=all -O3)
  endif()
endforeach()
# Threads that wait for each other give way to other processes; see the header.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_property(SOURCE "${WHISPER_CPP_DIR}/ggml/src/ggml-cpu/ggml-cpu.c" TARGET_DIRECTORY ggml-cpu
    APPEND PROPERTY COMPILE_OPTIONS -include "${CMAKE_CURRENT_SOURCE_DIR}/framework/compute/spin_wait.h")
endif()

# Header-only decoders that the same package ships.
add_library(miniaudio_headers INTERFACE)
target_include_directories(miniaudio_headers SYSTEM INTERFACE "${WHISPER_CPP_DIR}/examples")

# whisper.cpp, of which the family compiles the library's one source file into its own unit (see there).
file(STRINGS "${WHISPER_CPP_DIR}/CMakeLists.txt" whisper_version REGEX "^project\\(\"whisper.cpp\" VERSION ")
string(REGEX REPLACE ".*VERSION ([0-9.]+).*" "\\1" whisper_version "${whisper_version}")
add_library(whisper_library STATIC "${CMAKE_CURRENT_SOURCE_DIR}/models/whisper/library/library.cpp")
target_include_directories(whisper_library PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}")
target_include_directories(whisper_library SYSTEM PUBLIC "${WHISPER_CPP_DIR}/include" PRIVATE "${WHISPER_CPP_DIR}/src")
target_compile_definitions(whisper_library PRIVATE "WHISPER_VERSION=\"${whisper_version}\"")
target_compile_options(whisper_library PRIVATE -w "-ffile-prefix-map=${WHISPER_CPP_DIR}=whisper.cpp"
  "-ffile-prefix-map=${CMAKE_CURRENT_SOURCE_DIR}=native")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(whisper_library PRIVATE -march=x86-64-v3)
endif()
if(NATIVE_SANITIZE)
  target_compile_options(whisper_library PRIVATE -O1)
endif()
target_link_libraries(whisper_library PUBLIC ggml Threads::Threads)
