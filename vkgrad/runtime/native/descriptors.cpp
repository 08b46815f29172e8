#include "descriptors.hpp"
#include <algorithm>

namespace vkgrad {
DescriptorPool::~DescriptorPool() {
    VkDevice device = device_.handle();
    for (auto pool : pools_) api().vkDestroyDescriptorPool(device, pool, nullptr); // and its sets
    for (auto& [n, layout] : layouts_) {
        api().vkDestroyPipelineLayout(device, layout.pipeline, nullptr);
        api().vkDestroyDescriptorSetLayout(device, layout.set, nullptr);
    }
}

DescriptorPool::Layout& DescriptorPool::layout(uint32_t n_buffers) {
    Layout& layout = layouts_[n_buffers];
    if (!layout.set) {
        std::vector<VkDescriptorSetLayoutBinding> bindings(n_buffers);
        for (uint32_t i = 0; i < n_buffers; i++)
            bindings[i] = {i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
        VkDescriptorSetLayoutCreateInfo create{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
        create.bindingCount = n_buffers;
        create.pBindings = bindings.data();
        device_.check(api().vkCreateDescriptorSetLayout(device_.handle(), &create, nullptr, &layout.set),
                      "vkCreateDescriptorSetLayout");
    }
    if (!layout.pipeline) {
        VkPushConstantRange push{VK_SHADER_STAGE_COMPUTE_BIT, 0, device_.adapter.limits().maxPushConstantsSize};
        VkPipelineLayoutCreateInfo create{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
        create.setLayoutCount = 1;
        create.pSetLayouts = &layout.set;
        create.pushConstantRangeCount = 1;
        create.pPushConstantRanges = &push;
        device_.check(api().vkCreatePipelineLayout(device_.handle(), &create, nullptr, &layout.pipeline),
                      "vkCreatePipelineLayout");
    }
    return layout;
}

VkPipelineLayout DescriptorPool::pipeline_layout(uint32_t n_buffers) {
    std::lock_guard<std::mutex> lock(mutex_);
    return layout(n_buffers).pipeline;
}

void DescriptorPool::refill(Layout& layout, uint32_t n_buffers) {
    const uint32_t count = layout.next_pool_size;
    VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, n_buffers * count};
    VkDescriptorPoolCreateInfo create{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
    create.maxSets = count;
    create.poolSizeCount = 1;
    create.pPoolSizes = &size;
    VkDescriptorPool pool = VK_NULL_HANDLE;
    device_.check(api().vkCreateDescriptorPool(device_.handle(), &create, nullptr, &pool), "vkCreateDescriptorPool");
    pools_.push_back(pool);
    std::vector<VkDescriptorSetLayout> layouts(count, layout.set);
    std::vector<VkDescriptorSet> sets(count);
    VkDescriptorSetAllocateInfo allocate{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
    allocate.descriptorPool = pool;
    allocate.descriptorSetCount = count;
    allocate.pSetLayouts = layouts.data();
    device_.check(api().vkAllocateDescriptorSets(device_.handle(), &allocate, sets.data()), "vkAllocateDescriptorSets");
    layout.free = std::move(sets);
    layout.next_pool_size = std::min(count * 2, 1024u);
    device_.counters.descriptor_sets += count;
}

VkDescriptorSet DescriptorPool::take(const std::vector<VkDescriptorBufferInfo>& buffers) {
    const uint32_t n = uint32_t(buffers.size());
    VkDescriptorSet set = VK_NULL_HANDLE;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        Layout& of_n = layout(n);
        if (of_n.free.empty()) refill(of_n, n);
        set = of_n.free.back();
        of_n.free.pop_back();
    }
    VkWriteDescriptorSet write{VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
    write.dstSet = set; // dstBinding 0 and a count of n: the update runs on through the bindings
    write.descriptorCount = n;
    write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    write.pBufferInfo = buffers.data();
    api().vkUpdateDescriptorSets(device_.handle(), 1, &write, 0, nullptr);
    return set;
}

void DescriptorPool::give_back(uint32_t n_buffers, VkDescriptorSet set) {
    std::lock_guard<std::mutex> lock(mutex_);
    layouts_[n_buffers].free.push_back(set);
}
} // namespace vkgrad
