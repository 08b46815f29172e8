// One VkDeviceMemory with one VkBuffer over all of it, handed out in spans: drivers allow few allocations (often 4096)
// and make them slowly.
#pragma once
#include "logical_device.hpp"
#include <map>
#include <optional>

namespace vkgrad {
class Block {
  public:
    // The memory types that may stand behind a block, as bits: the same for buffers of every size.
    static uint32_t memory_types(LogicalDevice& device);

    // Throws Error(out_of_device_memory), saying how much its heap has left.
    Block(LogicalDevice& device, VkDeviceSize size, uint32_t memory_type, bool map);
    ~Block();
    Block(const Block&) = delete;

    std::optional<VkDeviceSize> take(VkDeviceSize length); // first fit; the offset
    void give_back(VkDeviceSize offset, VkDeviceSize length);
    bool is_unused() const { return !free_.empty() && free_.begin()->second == size_; }

    VkBuffer buffer() const { return buffer_; }
    char* mapped() const { return mapped_; }
    VkDeviceSize size() const { return size_; }

  private:
    LogicalDevice& device_;
    const VkDeviceSize size_;
    VkBuffer buffer_ = VK_NULL_HANDLE;
    VkDeviceMemory memory_ = VK_NULL_HANDLE;
    char* mapped_ = nullptr;
    std::map<VkDeviceSize, VkDeviceSize> free_; // offset -> length; neighbours are merged
};
} // namespace vkgrad
