// A device and its parts. Buffers and plans keep it alive; it keeps none of them, but for submissions in flight.
#pragma once
#include "descriptors.hpp"
#include "logical_device.hpp"
#include "memory.hpp"
#include "pipelines.hpp"
#include "plan.hpp"
#include "sequence_pool.hpp"
#include "timeline.hpp"

namespace vkgrad {
struct DeviceOptions {
    std::optional<uint32_t> index;
    std::optional<uint32_t> spin_us; // how long a wait polls before it sleeps
    VkDeviceSize block_bytes = 64 << 20;
    bool drop_barriers = false;
};

class Device {
  public:
    static std::shared_ptr<Device> open(const DeviceOptions& options);
    void drain() noexcept; // waits for everything in flight, and lets go of it
    void close(); // waits for what is in flight; later use raises

    LogicalDevice base; // first: the parts are destroyed before it
    const uint32_t spin_us;
    MemoryPool memory;
    PageLocked page_locked;
    DescriptorPool descriptors;
    PipelineTable pipelines;
    SequencePool sequences, copy_sequences;
    Timeline timeline, copy_timeline; // the second for plans of copies only, which may run beside those of the first

  private:
    explicit Device(const DeviceOptions& options);
};

// For the end of the process: a driver unloaded under work in flight crashes.
void close_all_devices();
} // namespace vkgrad
