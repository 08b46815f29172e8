// What a plan consists of, as operations that a kp::Sequence records.
#pragma once
#include "descriptors.hpp"
#include "memory.hpp"
#include "pipelines.hpp"
#include <kompute/operations/OpBase.hpp>

namespace vkgrad {
// Kompute calls the eval hooks only from its own submission, which is not used: timeline.hpp says why.
struct Operation : kp::OpBase {
    void preEval(const vk::CommandBuffer&) override {}
    void postEval(const vk::CommandBuffer&) override {}
};

// Hands out the VkCommandBuffer that kp::Sequence keeps to itself.
struct Capture : Operation {
    VkCommandBuffer commands = VK_NULL_HANDLE;
    void record(const vk::CommandBuffer& buffer) override { commands = buffer; }
};

// One global memory barrier: cheaper than one per buffer, and one is enough for a whole dependency level.
struct Barrier : Operation {
    struct Side {
        VkPipelineStageFlags stages;
        VkAccessFlags access;
    };
    Side before, after;
    Barrier(Side b, Side a) : before(b), after(a) {}
    static Barrier named(const std::string& kind); // compute, full, host; throws std::invalid_argument
    // Opens each recording: orders it after all earlier submissions to the queue, so that they may be in flight
    // together and hand memory on to each other without a wait.
    static Barrier leading();
    static Barrier leading_copies(); // the same on a queue that has no shaders
    void record(const vk::CommandBuffer& buffer) override;
};

struct BufferRange {
    std::shared_ptr<Buffer> buffer;
    VkDeviceSize offset, nbytes;
};

struct Dispatch : Operation {
    // Throws std::invalid_argument, std::out_of_range or Error(out_of_device_memory): a binding the device cannot make.
    Dispatch(Device& device, const Pipeline& pipeline, const std::vector<BufferRange>& ranges,
             std::array<uint32_t, 3> groups, std::string push);
    void record(const vk::CommandBuffer& buffer) override;

  private:
    const Pipeline& pipeline_;
    std::vector<std::shared_ptr<Buffer>> buffers_;
    std::unique_ptr<DescriptorSet> set_; // after buffers_: given back before they are
    const std::array<uint32_t, 3> groups_;
    const std::string push_;
};

struct Copy : Operation {
    Copy(Device& device, std::shared_ptr<Buffer> destination, std::shared_ptr<Buffer> source, VkDeviceSize nbytes,
         VkDeviceSize to, VkDeviceSize from);
    void record(const vk::CommandBuffer& buffer) override;

  private:
    std::shared_ptr<Buffer> destination_, source_;
    VkBufferCopy region_;
};

struct Fill : Operation { // with one 32-bit word
    Fill(Device& device, std::shared_ptr<Buffer> destination, uint32_t word, VkDeviceSize offset, VkDeviceSize nbytes);
    void record(const vk::CommandBuffer& buffer) override;

  private:
    std::shared_ptr<Buffer> destination_;
    VkDeviceSize offset_, nbytes_;
    uint32_t word_;
};

struct ResetTimestamps : Operation {
    VkQueryPool pool;
    uint32_t count;
    ResetTimestamps(VkQueryPool p, uint32_t n) : pool(p), count(n) {}
    void record(const vk::CommandBuffer& buffer) override;
};

struct Timestamp : Operation { // when all before it has ended
    VkQueryPool pool;
    uint32_t index;
    Timestamp(VkQueryPool p, uint32_t i) : pool(p), index(i) {}
    void record(const vk::CommandBuffer& buffer) override;
};
} // namespace vkgrad
