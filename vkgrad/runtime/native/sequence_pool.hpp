// kp::Sequence objects kept for reuse: each owns a command pool and a command buffer, which are slow to make.
#pragma once
#include <atomic>
#include <cstdint>
#include <kompute/Sequence.hpp>
#include <memory>
#include <mutex>
#include <vector>

namespace vkgrad {
struct LogicalDevice;

class SequencePool {
  public:
    SequencePool(LogicalDevice& device, vk::Queue queue, uint32_t family)
        : device_(device), queue_(queue), family_(family) {}
    std::shared_ptr<kp::Sequence> take();
    void give_back(std::shared_ptr<kp::Sequence> sequence); // must not be running

  private:
    LogicalDevice& device_;
    vk::Queue queue_;
    const uint32_t family_;
    std::mutex mutex_;
    std::vector<std::shared_ptr<kp::Sequence>> free_;
};

// Wraps the entry points through which kp::Sequence makes its command pool and buffer, without touching its source:
//  * its pools get RESET_COMMAND_BUFFER, without which recording a sequence a second time is invalid;
//  * the VkResults it drops are kept, and SequencePool::take throws for the first bad one.
void watch_kompute();
} // namespace vkgrad
