// Moving bytes between a program's memory and memory that a device maps.
#pragma once
#include <cstddef>
#include <cstdint>

namespace vkgrad {
// One thread moves 6 to 16 GB/s into mapped device memory, a few together what the bus carries: large pieces are shared
// out to threads that wait for such work. `threads` 0: as many as the size is worth.
void copy_bytes(char* target, const char* source, size_t count, unsigned threads = 0);
} // namespace vkgrad
