#include "error.hpp"

namespace vkgrad {
std::string result_name(VkResult result) {
    switch (result) {
#define NAME(r)                                                                                                        \
    case r: return #r;
        NAME(VK_NOT_READY)
        NAME(VK_TIMEOUT)
        NAME(VK_INCOMPLETE)
        NAME(VK_ERROR_OUT_OF_HOST_MEMORY)
        NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY)
        NAME(VK_ERROR_INITIALIZATION_FAILED)
        NAME(VK_ERROR_DEVICE_LOST)
        NAME(VK_ERROR_MEMORY_MAP_FAILED)
        NAME(VK_ERROR_LAYER_NOT_PRESENT)
        NAME(VK_ERROR_EXTENSION_NOT_PRESENT)
        NAME(VK_ERROR_FEATURE_NOT_PRESENT)
        NAME(VK_ERROR_INCOMPATIBLE_DRIVER)
        NAME(VK_ERROR_TOO_MANY_OBJECTS)
        NAME(VK_ERROR_FRAGMENTED_POOL)
        NAME(VK_ERROR_OUT_OF_POOL_MEMORY)
        NAME(VK_ERROR_FRAGMENTATION)
        NAME(VK_ERROR_INVALID_SHADER_NV)
        NAME(VK_ERROR_UNKNOWN)
#undef NAME
        default: return "VkResult " + std::to_string(int(result));
    }
}

Fault fault_of(VkResult result) {
    switch (result) {
        case VK_ERROR_OUT_OF_DEVICE_MEMORY:
        case VK_ERROR_OUT_OF_HOST_MEMORY:
        case VK_ERROR_TOO_MANY_OBJECTS: return Fault::out_of_device_memory;
        case VK_ERROR_DEVICE_LOST: return Fault::device_lost;
        case VK_ERROR_INVALID_SHADER_NV: return Fault::shader;
        default: return Fault::vulkan;
    }
}

void check(VkResult result, const char* call, const std::string& detail) {
    if (result >= 0) return;
    std::string text = std::string(call) + " returned " + result_name(result);
    throw Error(fault_of(result), detail.empty() ? text : text + ": " + detail);
}
} // namespace vkgrad
