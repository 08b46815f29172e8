# Kompute 0.9.0, unpatched. Used are kp::Sequence (one source file) and kp::OpBase (a header). Its own build would compile
# everything else too, want fmt, and treat its warnings as errors. Its tensors and algorithms are not used: each takes memory
# allocations or a pipeline of its own, and drops the results of Vulkan calls.
set(KOMPUTE_SOURCE "${CMAKE_CURRENT_SOURCE_DIR}/third_party/kp-0.9.0" CACHE PATH "Kompute's source: the unpacked sdist kp 0.9.0")
if(NOT EXISTS "${KOMPUTE_SOURCE}/src/Sequence.cpp")
  message(FATAL_ERROR "vkgrad: Kompute's source is not in ${KOMPUTE_SOURCE}. `pip install .` brings it in; to run CMake by hand, "
    "unpack what `pip download --no-deps --no-binary kp kp==0.9.0` fetches and pass -DKOMPUTE_SOURCE=<folder>.")
endif()
add_library(kompute OBJECT "${KOMPUTE_SOURCE}/src/Sequence.cpp")
target_include_directories(kompute SYSTEM PUBLIC "${KOMPUTE_SOURCE}/src/include" "${CMAKE_CURRENT_LIST_DIR}/fmt_shim")
target_compile_definitions(kompute PUBLIC KOMPUTE_OPT_LOG_LEVEL_DISABLED=1)
target_link_libraries(kompute PUBLIC vulkan_headers)
target_compile_features(kompute PUBLIC cxx_std_17)
# Written for C++14, where VkResults may be dropped in silence; sequence_pool.cpp looks at them.
# GCC 13's headers no longer bring std::uint64_t along by chance, and Kompute does not include <cstdint> itself.
target_compile_options(kompute PRIVATE -w PUBLIC -include cstdint)
set_target_properties(kompute PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
