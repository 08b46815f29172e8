// The shape of a SPIR-V module, and a refusal of what a driver would crash on.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace vkgrad {
struct SpirvInfo {
    uint32_t version = 0;  // as in its header: 0x00010300 is 1.3
    uint32_t bindings = 0; // highest binding of set 0, plus one
    std::vector<uint32_t> capabilities;
    std::array<uint32_t, 3> local_size{0, 0, 0}; // before specialisation
};

// Not spirv-val: header, instruction lengths, entry point, sets. A flipped bit can still pass, and crash a driver, so
// SPIR-V kept on disk needs a checksum. Throws Error(shader).
SpirvInfo inspect_spirv(const void* code, size_t nbytes);
} // namespace vkgrad
