#include "block.hpp"

namespace vkgrad {
static std::string left_in_heap(const LogicalDevice& device, uint32_t memory_type) {
    const Adapter& adapter = device.adapter;
    const uint32_t heap = adapter.memory.memoryTypes[memory_type].heapIndex;
    std::string text = "its heap has " + std::to_string(adapter.memory.memoryHeaps[heap].size) + " bytes";
    for (auto& extension : adapter.extensions)
        if (extension == "VK_EXT_memory_budget") {
            VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{
                VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
            VkPhysicalDeviceMemoryProperties2 memory{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
            memory.pNext = &budget;
            api().vkGetPhysicalDeviceMemoryProperties2(adapter.handle, &memory);
            text += ", of which this process uses " + std::to_string(budget.heapUsage[heap]) + " and may use " +
                    std::to_string(budget.heapBudget[heap]);
        }
    return text;
}

static VkBuffer create_buffer(LogicalDevice& device, VkDeviceSize size) {
    VkBufferCreateInfo create{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
    create.size = size;
    create.usage =
        VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    // Both queues may use it at any time; else it would have to be handed over between them by barriers on both.
    const uint32_t families[] = {device.adapter.queue_family, device.copy_family()};
    if (device.adapter.copy_family) {
        create.sharingMode = VK_SHARING_MODE_CONCURRENT;
        create.queueFamilyIndexCount = 2;
        create.pQueueFamilyIndices = families;
    }
    VkBuffer buffer = VK_NULL_HANDLE;
    device.check(api().vkCreateBuffer(device.handle(), &create, nullptr, &buffer), "vkCreateBuffer",
                 std::to_string(size) + " bytes");
    return buffer;
}

uint32_t Block::memory_types(LogicalDevice& device) {
    VkBuffer probe = create_buffer(device, 256);
    VkMemoryRequirements needs;
    api().vkGetBufferMemoryRequirements(device.handle(), probe, &needs);
    api().vkDestroyBuffer(device.handle(), probe, nullptr);
    return needs.memoryTypeBits;
}

Block::Block(LogicalDevice& device, VkDeviceSize size, uint32_t memory_type, bool map) : device_(device), size_(size) {
    try {
        buffer_ = create_buffer(device, size);
        VkMemoryRequirements needs;
        api().vkGetBufferMemoryRequirements(device.handle(), buffer_, &needs);
        VkMemoryAllocateInfo allocate{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
        allocate.allocationSize = needs.size;
        allocate.memoryTypeIndex = memory_type;
        VkResult result = api().vkAllocateMemory(device.handle(), &allocate, nullptr, &memory_);
        if (result < 0) {
            memory_ = VK_NULL_HANDLE;
            device.check(result, "vkAllocateMemory",
                         std::to_string(needs.size) + " bytes were asked for; " + left_in_heap(device, memory_type) +
                             ": free tensors, use a smaller batch, or choose a device with more memory");
        }
        device.check(api().vkBindBufferMemory(device.handle(), buffer_, memory_, 0), "vkBindBufferMemory");
        if (map) {
            void* address = nullptr;
            device.check(api().vkMapMemory(device.handle(), memory_, 0, VK_WHOLE_SIZE, 0, &address), "vkMapMemory");
            mapped_ = static_cast<char*>(address);
        }
    } catch (...) {
        api().vkDestroyBuffer(device.handle(), buffer_, nullptr);
        api().vkFreeMemory(device.handle(), memory_, nullptr);
        throw;
    }
    free_[0] = size;
    device.counters.blocks++;
    device.counters.blocks_allocated++;
    device.counters.bytes_reserved += size;
}

Block::~Block() {
    api().vkDestroyBuffer(device_.handle(), buffer_, nullptr);
    api().vkFreeMemory(device_.handle(), memory_, nullptr); // unmaps
    device_.counters.blocks--;
    device_.counters.bytes_reserved -= size_;
}

std::optional<VkDeviceSize> Block::take(VkDeviceSize length) {
    for (auto span = free_.begin(); span != free_.end(); ++span) {
        if (span->second < length) continue;
        const auto [offset, available] = *span;
        free_.erase(span);
        if (available > length) free_[offset + length] = available - length;
        return offset;
    }
    return std::nullopt;
}

void Block::give_back(VkDeviceSize offset, VkDeviceSize length) {
    auto span = free_.emplace(offset, length).first;
    auto next = std::next(span);
    if (next != free_.end() && offset + length == next->first) {
        span->second += next->second;
        free_.erase(next);
    }
    if (span != free_.begin()) {
        auto previous = std::prev(span);
        if (previous->first + previous->second == offset) {
            previous->second += span->second;
            free_.erase(span);
        }
    }
}
} // namespace vkgrad
