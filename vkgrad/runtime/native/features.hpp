// Which features and extensions are switched on: all that vkgrad knows how to use and the driver offers.
#pragma once
#include "adapter.hpp"

namespace vkgrad {
// Makes the VkDevice and writes into `adapter` what it has. Throws Error(no_device) without timeline semaphores.
VkDevice open_logical_device(Adapter& adapter);

// The name of the feature that a SPIR-V capability stands for; null when every device has it.
const char* feature_of_capability(uint32_t capability);
} // namespace vkgrad
