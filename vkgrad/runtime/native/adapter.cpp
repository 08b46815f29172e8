#include "adapter.hpp"
#include "error.hpp"
#include "loader.hpp"
#include <algorithm>

namespace vkgrad {
std::string type_name(VkPhysicalDeviceType type) {
    switch (type) {
        case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return "integrated";
        case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return "discrete";
        case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return "virtual";
        case VK_PHYSICAL_DEVICE_TYPE_CPU: return "cpu";
        default: return "other";
    }
}

// The first compute family: on every GPU met so far it is the one that also has transfers and timestamps.
static std::optional<uint32_t> compute_family(VkPhysicalDevice device, uint32_t& timestamp_bits) {
    uint32_t count = 0;
    api().vkGetPhysicalDeviceQueueFamilyProperties(device, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    api().vkGetPhysicalDeviceQueueFamilyProperties(device, &count, families.data());
    for (uint32_t i = 0; i < count; i++)
        if (families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) {
            timestamp_bits = families[i].timestampValidBits;
            return i;
        }
    return std::nullopt;
}

static std::optional<uint32_t> copy_family(VkPhysicalDevice device) {
    uint32_t count = 0;
    api().vkGetPhysicalDeviceQueueFamilyProperties(device, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    api().vkGetPhysicalDeviceQueueFamilyProperties(device, &count, families.data());
    for (uint32_t i = 0; i < count; i++) {
        const auto others = families[i].queueFlags & ~(VK_QUEUE_TRANSFER_BIT | VK_QUEUE_SPARSE_BINDING_BIT);
        if (families[i].queueFlags & VK_QUEUE_TRANSFER_BIT && !others) // not one of a video engine either
            return i;
    }
    return std::nullopt;
}

static Adapter describe(VkPhysicalDevice handle, uint32_t index) {
    Adapter a;
    a.index = index;
    a.handle = handle;
    api().vkGetPhysicalDeviceProperties(handle, &a.properties);
    api().vkGetPhysicalDeviceMemoryProperties(handle, &a.memory);
    if (a.properties.apiVersion < VK_API_VERSION_1_2) return a; // listed, refused by choose_adapter
    a.properties11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES;
    a.properties12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES;
    VkPhysicalDeviceVulkan13Properties properties13{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES};
    VkPhysicalDeviceProperties2 all{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    all.pNext = &a.properties11;
    a.properties11.pNext = &a.properties12;
    bool has13 = a.properties.apiVersion >= VK_API_VERSION_1_3;
    if (has13) a.properties12.pNext = &properties13;
    api().vkGetPhysicalDeviceProperties2(handle, &all);
    a.properties11.pNext = a.properties12.pNext = nullptr; // the chain ends with this function
    a.min_subgroup_size = has13 ? properties13.minSubgroupSize : a.properties11.subgroupSize;
    a.max_subgroup_size = has13 ? properties13.maxSubgroupSize : a.properties11.subgroupSize;
    return a;
}

std::vector<Adapter> adapters() {
    std::vector<Adapter> found;
    for (VkPhysicalDevice device : physical_devices()) found.push_back(describe(device, uint32_t(found.size())));
    return found;
}

Adapter choose_adapter(std::optional<uint32_t> index) {
    auto found = adapters();
    if (found.empty())
        throw Error(Fault::no_device,
                    "a Vulkan driver is there, but no Vulkan device: check that the GPU is visible to this "
                    "process, or install a CPU driver (Debian/Ubuntu: mesa-vulkan-drivers)");
    auto preference = [](const Adapter& a) {
        static const std::string order[] = {"other", "cpu", "virtual", "integrated", "discrete"};
        return std::find(std::begin(order), std::end(order), type_name(a.properties.deviceType)) - std::begin(order);
    };
    auto worse = [&](const Adapter& a, const Adapter& b) { return preference(a) < preference(b); };
    if (!index) index = std::max_element(found.begin(), found.end(), worse)->index;
    if (*index >= found.size()) {
        std::string names;
        for (auto& a : found) names += (names.empty() ? "" : ", ") + std::to_string(a.index) + " = " + a.name();
        throw Error(Fault::no_device,
                    "there is no Vulkan device " + std::to_string(*index) + "; choose one of: " + names);
    }
    Adapter& chosen = found[*index];
    if (chosen.properties.apiVersion < VK_API_VERSION_1_2)
        throw Error(Fault::no_device,
                    chosen.name() + " offers less than Vulkan 1.2: update its driver or choose another device");
    auto family = compute_family(chosen.handle, chosen.timestamp_bits);
    if (!family) throw Error(Fault::no_device, chosen.name() + " has no compute queue: choose another device");
    chosen.queue_family = *family;
    chosen.copy_family = copy_family(chosen.handle);
    return chosen;
}
} // namespace vkgrad
