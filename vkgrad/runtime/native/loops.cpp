#define LOOPS loops_of_any_processor
#include "loops.inc"
#include <cstring>

namespace vkgrad {
#ifdef VKGRAD_AVX2
const NamedLoop* loops_of_avx2(); // loops_avx2.cpp
#endif

Loop find_loop(const std::string& name) {
    const NamedLoop* loops = loops_of_any_processor();
#ifdef VKGRAD_AVX2
    if (__builtin_cpu_supports("avx2")) loops = loops_of_avx2();
#endif
    for (; loops->name; loops++)
        if (name == loops->name) return loops->loop;
    return nullptr;
}
} // namespace vkgrad
