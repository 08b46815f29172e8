// Moving bytes between a program's memory and memory that a device maps.
#pragma once
#include <cstddef>
#include <cstdint>

namespace vkgrad {
// One thread moves some 12 GB/s into mapped memory, be it the device's or the host's; on an H200's host four fill the bus
// to the device (29 GB/s) and eight move 70 GB/s in the host's memory. So large pieces are shared out to threads that wait
// for such work. `threads` 0: as many as the size is worth.
void copy_bytes(char* target, const char* source, size_t count, unsigned threads = 0);

// Rows of `source` of so many bytes, by their numbers, one behind the other into `target`; shared out likewise.
void gather_rows(char* target, const char* source, size_t row_bytes, const int64_t* rows, size_t count);
} // namespace vkgrad
