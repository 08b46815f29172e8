// libvulkan opened at run time, and the process's one VkInstance on it.
#pragma once
#include "vulkan_api.hpp"
#include <cstdint>
#include <vector>

namespace vkgrad {
// Opens the loader and makes the instance on the first call; after a failure the next call tries again.
// Throws Error(no_driver); Error(forked) in a child of a process that had the instance: lavapipe could open another
// device there, SwiftShader hangs.
VkInstance instance();

// Empty when the drivers are there and none has a device.
std::vector<VkPhysicalDevice> physical_devices();

// How often this process came out of a fork. A driver's threads do not survive one, so whatever was opened at another
// count must not be touched: calls on it may wait for ever.
uint64_t forks();
} // namespace vkgrad
