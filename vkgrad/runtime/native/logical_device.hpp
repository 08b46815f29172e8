// The VkDevice with its queue and state: what memory, pipelines, descriptors, sequences and the timeline stand on.
// Knows none of them.
#pragma once
#include "adapter.hpp"
#include "counters.hpp"
#include "error.hpp"
#include <atomic>
#include <mutex>

namespace vkgrad {
struct LogicalDevice {
    LogicalDevice(Adapter chosen, bool drop_barriers);
    ~LogicalDevice();
    LogicalDevice(const LogicalDevice&) = delete;

    Adapter adapter;
    vk::PhysicalDevice physical; // Kompute takes vulkan.hpp's classes
    vk::Device device;
    vk::Queue queue, copy_queue; // the same one where the device has no queue just for copies
    std::mutex submitting; // the two may be one queue, which one thread at a time may use
    Counters counters;
    const bool drop_barriers; // test only: no barrier is recorded, which synchronization validation must notice
    std::atomic<bool> closed{false}, lost{false}, lose_next_submission{false};

    uint32_t copy_family() const { return adapter.copy_family.value_or(adapter.queue_family); }
    VkDevice handle() const { return device; }
    bool forked() const;         // opened before a fork: nothing of it may be called any more
    void require_usable() const; // throws Error(forked, closed or device_lost)

    // Throws for an error; a lost device stays lost.
    void check(VkResult result, const char* call, const std::string& detail = {});

  private:
    const uint64_t forks_at_open_;
};
} // namespace vkgrad
