// What a physical device offers, read before anything is opened on it.
#pragma once
#include "vulkan_api.hpp"
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vkgrad {
struct CooperativeMatrix { // one shape of VK_KHR_cooperative_matrix: D = A B + C
    uint32_t m, n, k;
    std::string a, b, c, d; // element types
    bool saturating;
    std::string scope;
};

struct Adapter {
    uint32_t index = 0;
    VkPhysicalDevice handle = VK_NULL_HANDLE;
    VkPhysicalDeviceProperties properties{};
    VkPhysicalDeviceVulkan11Properties properties11{};
    VkPhysicalDeviceVulkan12Properties properties12{};
    VkPhysicalDeviceMemoryProperties memory{};
    uint32_t min_subgroup_size = 0, max_subgroup_size = 0;
    uint32_t queue_family = 0, timestamp_bits = 0;
    std::optional<uint32_t> copy_family; // one that only copies, beside the compute queue: a DMA engine's
    // Filled by open_logical_device (features.cpp): what was switched on
    std::map<std::string, bool> features;
    std::vector<std::string> extensions;
    std::vector<CooperativeMatrix> cooperative_matrices;

    std::string name() const { return properties.deviceName; }
    const VkPhysicalDeviceLimits& limits() const { return properties.limits; }
    bool has(const std::string& feature) const {
        auto found = features.find(feature);
        return found != features.end() && found->second;
    }
    bool is_cpu() const { return properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU; }
};

std::string type_name(VkPhysicalDeviceType type); // discrete, integrated, virtual, cpu, other
std::vector<Adapter> adapters();

// The one with this index; without an index the best type, a CPU last. Throws Error(no_device), listing what there is.
Adapter choose_adapter(std::optional<uint32_t> index);
} // namespace vkgrad
