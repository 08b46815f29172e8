// Vulkan's types and its table of entry points, as every file here sees them.
#pragma once
#include <vulkan/vulkan.hpp>

namespace vkgrad {
// vulkan.hpp's default dispatcher, filled by loader.cpp at run time: nothing links against libvulkan. Kompute calls
// through the same table.
inline auto& api() { return VULKAN_HPP_DEFAULT_DISPATCHER; }
} // namespace vkgrad
