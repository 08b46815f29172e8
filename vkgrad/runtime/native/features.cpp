#include "features.hpp"
#include "error.hpp"
#include "loader.hpp"
#include <cstring>

// Known to newer headers than Debian 12's 1.3.239; the driver decides whether it is used.
#ifndef VK_KHR_cooperative_matrix
struct VkPhysicalDeviceCooperativeMatrixFeaturesKHR {
    VkStructureType sType;
    void* pNext;
    VkBool32 cooperativeMatrix, cooperativeMatrixRobustBufferAccess;
};
struct VkCooperativeMatrixPropertiesKHR {
    VkStructureType sType;
    void* pNext;
    uint32_t MSize, NSize, KSize, AType, BType, CType, ResultType;
    VkBool32 saturatingAccumulation;
    uint32_t scope;
};
#define VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR VkStructureType(1000506000)
#define VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR VkStructureType(1000506001)
#endif

#ifndef VK_KHR_shader_bfloat16
struct VkPhysicalDeviceShaderBfloat16FeaturesKHR {
    VkStructureType sType;
    void* pNext;
    VkBool32 shaderBFloat16Type, shaderBFloat16DotProduct, shaderBFloat16CooperativeMatrix;
};
#define VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR VkStructureType(1000141000)
#endif

#ifndef VK_NV_cooperative_matrix2
struct VkPhysicalDeviceCooperativeMatrix2FeaturesNV {
    VkStructureType sType;
    void* pNext;
    VkBool32 cooperativeMatrixWorkgroupScope, cooperativeMatrixFlexibleDimensions, cooperativeMatrixReductions,
        cooperativeMatrixConversions, cooperativeMatrixPerElementOperations, cooperativeMatrixTensorAddressing,
        cooperativeMatrixBlockLoads;
};
#define VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV VkStructureType(1000593000)
#endif

namespace vkgrad {
const char* feature_of_capability(uint32_t capability) {
    switch (capability) {
        case 9: return "shaderFloat16";
        case 10: return "shaderFloat64";
        case 11: return "shaderInt64";
        case 22: return "shaderInt16";
        case 39: return "shaderInt8";
        case 4433: return "storageBuffer16BitAccess";
        case 4434: return "uniformAndStorageBuffer16BitAccess";
        case 4448: return "storageBuffer8BitAccess";
        case 5116: return "shaderBFloat16Type";
        case 5117: return "shaderBFloat16DotProduct";
        case 5118: return "shaderBFloat16CooperativeMatrix";
        case 5345: return "vulkanMemoryModel";
        case 5347: return "bufferDeviceAddress";
        case 5430: return "cooperativeMatrixReductions";
        case 5431: return "cooperativeMatrixConversions";
        case 5432: return "cooperativeMatrixPerElementOperations";
        case 5433: return "cooperativeMatrixTensorAddressing";
        case 5434: return "cooperativeMatrixBlockLoads";
        case 6022: return "cooperativeMatrix";
        case 6033: return "shaderBufferFloat32AtomicAdd";
        default: return nullptr;
    }
}

static std::vector<CooperativeMatrix> cooperative_matrices(VkPhysicalDevice device) {
    using Query = VkResult(VKAPI_PTR*)(VkPhysicalDevice, uint32_t*, VkCooperativeMatrixPropertiesKHR*);
    auto query = reinterpret_cast<Query>(
        api().vkGetInstanceProcAddr(instance(), "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
    uint32_t count = 0;
    if (!query || query(device, &count, nullptr) < 0) return {};
    VkCooperativeMatrixPropertiesKHR empty{};
    empty.sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
    std::vector<VkCooperativeMatrixPropertiesKHR> shapes(count, empty);
    check(query(device, &count, shapes.data()), "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    auto element = [](auto type) -> std::string { // VkComponentTypeKHR
        static const char* const names[] = {"f16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"};
        return uint64_t(type) < 11            ? names[type]
               : uint64_t(type) == 1000141000 ? "bf16"
                                              : std::to_string(uint64_t(type));
    };
    auto scope = [](auto value) -> std::string { // VkScopeKHR
        static const char* const names[] = {"?", "device", "workgroup", "subgroup", "?", "queue_family"};
        return uint64_t(value) < 6 ? names[value] : std::to_string(uint64_t(value));
    };
    std::vector<CooperativeMatrix> out;
    for (auto& s : shapes)
        out.push_back({s.MSize, s.NSize, s.KSize, element(s.AType), element(s.BType), element(s.CType),
                       element(s.ResultType), s.saturatingAccumulation != 0, scope(s.scope)});
    return out;
}

VkDevice open_logical_device(Adapter& adapter) {
    VkPhysicalDevice physical = adapter.handle;
    uint32_t count = 0;
    check(api().vkEnumerateDeviceExtensionProperties(physical, nullptr, &count, nullptr),
          "vkEnumerateDeviceExtensionProperties");
    std::vector<VkExtensionProperties> offered(count);
    check(api().vkEnumerateDeviceExtensionProperties(physical, nullptr, &count, offered.data()),
          "vkEnumerateDeviceExtensionProperties");
    std::vector<const char*> extensions;
    auto use = [&](const char* name) {
        for (auto& extension : offered)
            if (!std::strcmp(extension.extensionName, name)) {
                extensions.push_back(name);
                adapter.extensions.emplace_back(name);
                return true;
            }
        return false;
    };
    const bool matrices = use("VK_KHR_cooperative_matrix"), atomics = use("VK_EXT_shader_atomic_float");
    const bool matrices2 = matrices && use("VK_NV_cooperative_matrix2"), bfloat16 = use("VK_KHR_shader_bfloat16");
    use("VK_EXT_memory_budget"); // only read, for the text of an out-of-memory error

    // Two chains of the same structs: what there is, and what is switched on.
    VkPhysicalDeviceFeatures2 have{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2}, on = have;
    VkPhysicalDeviceVulkan11Features have11{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES}, on11 = have11;
    VkPhysicalDeviceVulkan12Features have12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES}, on12 = have12;
    VkPhysicalDeviceVulkan13Features have13{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES}, on13 = have13;
    VkPhysicalDeviceShaderAtomicFloatFeaturesEXT have_atomics{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT};
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR have_matrices{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR};
    VkPhysicalDeviceCooperativeMatrix2FeaturesNV have_matrices2{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV};
    VkPhysicalDeviceShaderBfloat16FeaturesKHR have_bfloat16{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR};
    auto on_atomics = have_atomics;
    auto on_matrices = have_matrices;
    auto on_matrices2 = have_matrices2;
    auto on_bfloat16 = have_bfloat16;
    void **have_end = &have.pNext, **on_end = &on.pNext;
    auto chain = [&](auto& h, auto& o) {
        *have_end = &h;
        have_end = &h.pNext;
        *on_end = &o;
        on_end = &o.pNext;
    };
    chain(have11, on11);
    chain(have12, on12);
    if (adapter.properties.apiVersion >= VK_API_VERSION_1_3) chain(have13, on13);
    if (atomics) chain(have_atomics, on_atomics);
    if (matrices) chain(have_matrices, on_matrices);
    if (matrices2) chain(have_matrices2, on_matrices2);
    if (bfloat16) chain(have_bfloat16, on_bfloat16);
    api().vkGetPhysicalDeviceFeatures2(physical, &have);

#define SWITCH_ON(h, o, feature) adapter.features[#feature] = (o.feature = h.feature) != 0;
    SWITCH_ON(have.features, on.features, shaderFloat64)
    SWITCH_ON(have.features, on.features, shaderInt64)
    SWITCH_ON(have.features, on.features, shaderInt16)
    SWITCH_ON(have11, on11, storageBuffer16BitAccess)
    SWITCH_ON(have11, on11, uniformAndStorageBuffer16BitAccess)
    SWITCH_ON(have12, on12, timelineSemaphore)
    SWITCH_ON(have12, on12, shaderFloat16)
    SWITCH_ON(have12, on12, shaderInt8)
    SWITCH_ON(have12, on12, storageBuffer8BitAccess)
    SWITCH_ON(have12, on12, scalarBlockLayout)
    SWITCH_ON(have12, on12, vulkanMemoryModel)
    SWITCH_ON(have12, on12, vulkanMemoryModelDeviceScope)
    SWITCH_ON(have12, on12, bufferDeviceAddress)
    SWITCH_ON(have12, on12, shaderSubgroupExtendedTypes)
    SWITCH_ON(have13, on13, subgroupSizeControl)
    SWITCH_ON(have13, on13, computeFullSubgroups)
    SWITCH_ON(have13, on13, maintenance4)
    SWITCH_ON(have13, on13, shaderIntegerDotProduct)
    SWITCH_ON(have13, on13, shaderZeroInitializeWorkgroupMemory)
    SWITCH_ON(have_atomics, on_atomics, shaderBufferFloat32AtomicAdd)
    SWITCH_ON(have_matrices, on_matrices, cooperativeMatrix)
    SWITCH_ON(have_matrices2, on_matrices2, cooperativeMatrixWorkgroupScope)
    SWITCH_ON(have_matrices2, on_matrices2, cooperativeMatrixFlexibleDimensions)
    SWITCH_ON(have_matrices2, on_matrices2, cooperativeMatrixReductions)
    SWITCH_ON(have_matrices2, on_matrices2, cooperativeMatrixConversions)
    SWITCH_ON(have_matrices2, on_matrices2, cooperativeMatrixPerElementOperations)
    SWITCH_ON(have_matrices2, on_matrices2, cooperativeMatrixTensorAddressing)
    SWITCH_ON(have_matrices2, on_matrices2, cooperativeMatrixBlockLoads)
    SWITCH_ON(have_bfloat16, on_bfloat16, shaderBFloat16Type)
    SWITCH_ON(have_bfloat16, on_bfloat16, shaderBFloat16DotProduct)
    SWITCH_ON(have_bfloat16, on_bfloat16, shaderBFloat16CooperativeMatrix)
#undef SWITCH_ON
    if (!adapter.has("timelineSemaphore"))
        throw Error(Fault::no_device,
                    adapter.name() + " has no timeline semaphores: update its driver or choose another device");
    if (adapter.has("cooperativeMatrix")) adapter.cooperative_matrices = cooperative_matrices(physical);

    const float priority = 1;
    VkDeviceQueueCreateInfo queues[2]{{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO}};
    queues[0].queueFamilyIndex = adapter.queue_family;
    queues[0].queueCount = 1;
    queues[0].pQueuePriorities = &priority;
    queues[1] = queues[0];
    if (adapter.copy_family) queues[1].queueFamilyIndex = *adapter.copy_family;
    VkDeviceCreateInfo create{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
    create.pNext = &on;
    create.queueCreateInfoCount = adapter.copy_family ? 2 : 1;
    create.pQueueCreateInfos = queues;
    create.enabledExtensionCount = uint32_t(extensions.size());
    create.ppEnabledExtensionNames = extensions.data();
    VkDevice device = VK_NULL_HANDLE;
    check(api().vkCreateDevice(physical, &create, nullptr, &device), "vkCreateDevice", adapter.name());
    return device;
}
} // namespace vkgrad
