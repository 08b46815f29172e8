// Layouts for n storage buffers at bindings 0..n-1 of set 0, and descriptor sets of these layouts kept for reuse.
#pragma once
#include "logical_device.hpp"
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace vkgrad {
class DescriptorPool {
  public:
    explicit DescriptorPool(LogicalDevice& device) : device_(device) {}
    ~DescriptorPool();

    VkPipelineLayout pipeline_layout(uint32_t n_buffers);
    VkDescriptorSet take(const std::vector<VkDescriptorBufferInfo>& buffers);
    void give_back(uint32_t n_buffers, VkDescriptorSet set); // not while a submission uses it

  private:
    struct Layout {
        VkDescriptorSetLayout set = VK_NULL_HANDLE;
        VkPipelineLayout pipeline = VK_NULL_HANDLE;
        std::vector<VkDescriptorSet> free;
        uint32_t next_pool_size = 64; // doubles, to 1024
    };
    Layout& layout(uint32_t n_buffers);
    void refill(Layout& layout, uint32_t n_buffers);

    LogicalDevice& device_;
    std::mutex mutex_;
    std::unordered_map<uint32_t, Layout> layouts_;
    std::vector<VkDescriptorPool> pools_;
};

// A set for as long as this lives.
class DescriptorSet {
  public:
    DescriptorSet(DescriptorPool& pool, const std::vector<VkDescriptorBufferInfo>& buffers)
        : pool_(pool), n_buffers_(uint32_t(buffers.size())), handle_(pool.take(buffers)) {}
    ~DescriptorSet() { pool_.give_back(n_buffers_, handle_); }
    DescriptorSet(const DescriptorSet&) = delete;
    const VkDescriptorSet& handle() const { return handle_; }

  private:
    DescriptorPool& pool_;
    const uint32_t n_buffers_;
    const VkDescriptorSet handle_;
};
} // namespace vkgrad
