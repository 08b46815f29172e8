#include "sequence_pool.hpp"
#include "error.hpp"
#include "logical_device.hpp"
#include <utility>

namespace vkgrad {
static PFN_vkCreateCommandPool create_command_pool;
static PFN_vkAllocateCommandBuffers allocate_command_buffers;
static PFN_vkFreeCommandBuffers free_command_buffers;
// vulkan.hpp declares these calls noexcept: an exception thrown inside one would end the process, so it waits here.
static thread_local VkResult dropped = VK_SUCCESS;

static VKAPI_ATTR VkResult VKAPI_CALL create_resettable_pool(VkDevice device, const VkCommandPoolCreateInfo* info,
                                                             const VkAllocationCallbacks* allocator,
                                                             VkCommandPool* pool) {
    VkCommandPoolCreateInfo changed = *info;
    changed.flags |= VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    return dropped = create_command_pool(device, &changed, allocator, pool);
}
static VKAPI_ATTR VkResult VKAPI_CALL allocate_from_good_pool(VkDevice device, const VkCommandBufferAllocateInfo* info,
                                                              VkCommandBuffer* commands) {
    if (dropped < 0) return dropped; // there is no pool: the driver would crash
    return dropped = allocate_command_buffers(device, info, commands);
}
static VKAPI_ATTR void VKAPI_CALL free_to_good_pool(VkDevice device, VkCommandPool pool, uint32_t count,
                                                    const VkCommandBuffer* commands) {
    if (pool) free_command_buffers(device, pool, count, commands);
}

void watch_kompute() {
    create_command_pool = std::exchange(api().vkCreateCommandPool, create_resettable_pool);
    allocate_command_buffers = std::exchange(api().vkAllocateCommandBuffers, allocate_from_good_pool);
    free_command_buffers = std::exchange(api().vkFreeCommandBuffers, free_to_good_pool);
}

std::shared_ptr<kp::Sequence> SequencePool::take() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!free_.empty()) {
            auto sequence = std::move(free_.back());
            free_.pop_back();
            return sequence;
        }
    }
    // Kompute wants shared pointers; these own nothing, because the pool goes before the device does.
    auto borrow = [](auto& object) {
        return std::shared_ptr<std::decay_t<decltype(object)>>(std::shared_ptr<void>(), &object);
    };
    dropped = VK_SUCCESS;
    auto sequence = std::make_shared<kp::Sequence>(borrow(device_.physical), borrow(device_.device), borrow(queue_),
                                                   family_);
    check(dropped, "kp::Sequence", "no command buffer could be made");
    device_.counters.sequences++;
    return sequence;
}

void SequencePool::give_back(std::shared_ptr<kp::Sequence> sequence) {
    sequence->clear(); // lets go of its operations
    std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(std::move(sequence));
}
} // namespace vkgrad
