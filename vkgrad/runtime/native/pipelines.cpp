#include "pipelines.hpp"
#include "features.hpp"
#include <chrono>
#include <cstring>

namespace vkgrad {
PipelineTable::PipelineTable(LogicalDevice& device, DescriptorPool& descriptors)
    : device_(device), descriptors_(descriptors) {
    VkPipelineCacheCreateInfo create{VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    device.check(api().vkCreatePipelineCache(device.handle(), &create, nullptr, &cache_), "vkCreatePipelineCache");
}
PipelineTable::~PipelineTable() {
    for (auto& [key, pipeline] : pipelines_) api().vkDestroyPipeline(device_.handle(), pipeline->handle, nullptr);
    api().vkDestroyPipelineCache(device_.handle(), cache_, nullptr);
}

static std::string table_key(const PipelineRequest& request) {
    std::string key = request.key.empty() ? "s" + request.spirv : "k" + request.key;
    auto append = [&key](uint32_t number) { key.append(reinterpret_cast<const char*>(&number), 4); };
    for (auto& [id, bytes] : request.constants) {
        append(id);
        key += bytes;
        append(uint32_t(bytes.size()));
    }
    append(uint32_t(request.constants.size()));
    append(request.n_buffers);
    append(request.subgroup_size);
    return key;
}

Pipeline* PipelineTable::get(const PipelineRequest& request) {
    device_.require_usable();
    std::string key = table_key(request);
    {
        std::lock_guard<std::mutex> lock(mutex_);
        auto found = pipelines_.find(key);
        if (found != pipelines_.end()) {
            device_.counters.pipeline_lookups++;
            return found->second.get();
        }
    }
    auto made = create(request);
    std::lock_guard<std::mutex> lock(mutex_);
    auto [entry, is_new] = pipelines_.try_emplace(std::move(key), std::move(made));
    if (!is_new) api().vkDestroyPipeline(device_.handle(), made->handle, nullptr); // another thread was first
    return entry->second.get();
}

void PipelineTable::require_supported(const PipelineRequest& request, const SpirvInfo& spirv) const {
    const Adapter& adapter = device_.adapter;
    const auto& limits = adapter.limits();
    auto refuse = [&](const std::string& reason) { throw Error(Fault::shader, reason); };
    if (request.n_buffers == 0) refuse("a shader without a buffer has no effect: n_buffers must be at least 1");
    if (request.n_buffers > limits.maxPerStageDescriptorStorageBuffers)
        refuse(std::to_string(request.n_buffers) + " buffers are more than the " +
               std::to_string(limits.maxPerStageDescriptorStorageBuffers) + " that " + adapter.name() +
               " binds: split the kernel");
    if (spirv.bindings > request.n_buffers)
        refuse("the shader uses binding " + std::to_string(spirv.bindings - 1) + ", but n_buffers is " +
               std::to_string(request.n_buffers));
    for (uint32_t capability : spirv.capabilities) {
        const char* feature = feature_of_capability(capability);
        if (feature && !adapter.has(feature))
            refuse(std::string("the shader needs ") + feature + ", which " + adapter.name() +
                   " does not offer: use another dtype or device");
    }
    uint64_t invocations = 1;
    for (int axis = 0; axis < 3; axis++) {
        invocations *= spirv.local_size[axis];
        if (spirv.local_size[axis] > limits.maxComputeWorkGroupSize[axis])
            refuse("a local size of " + std::to_string(spirv.local_size[axis]) + " is over the limit of " +
                   std::to_string(limits.maxComputeWorkGroupSize[axis]) + " on axis " + std::to_string(axis));
    }
    if (invocations > limits.maxComputeWorkGroupInvocations)
        refuse(std::to_string(invocations) + " invocations a workgroup are over the limit of " +
               std::to_string(limits.maxComputeWorkGroupInvocations));
    if (const uint32_t size = request.subgroup_size) {
        const bool power_of_two = (size & (size - 1)) == 0;
        if (!adapter.has("subgroupSizeControl") || !power_of_two || size < adapter.min_subgroup_size ||
            size > adapter.max_subgroup_size)
            refuse("subgroup size " + std::to_string(size) + " is not offered: " + adapter.name() + " has " +
                   std::to_string(adapter.min_subgroup_size) + " to " + std::to_string(adapter.max_subgroup_size));
    }
}

std::unique_ptr<Pipeline> PipelineTable::create(const PipelineRequest& request) {
    auto pipeline = std::make_unique<Pipeline>();
    pipeline->device = &device_;
    pipeline->spirv = inspect_spirv(request.spirv.data(), request.spirv.size());
    require_supported(request, pipeline->spirv);
    pipeline->n_buffers = request.n_buffers;
    pipeline->layout = descriptors_.pipeline_layout(request.n_buffers);

    std::vector<VkSpecializationMapEntry> entries;
    std::string data;
    for (auto& [id, bytes] : request.constants) {
        if (bytes.size() != 4 && bytes.size() != 8)
            throw std::invalid_argument("pipeline: constant " + std::to_string(id) + " has " +
                                        std::to_string(bytes.size()) + " bytes; a specialisation constant has 4 or 8");
        entries.push_back({id, uint32_t(data.size()), bytes.size()});
        data += bytes;
    }
    const VkSpecializationInfo constants{uint32_t(entries.size()), entries.data(), data.size(), data.data()};

    const auto start = std::chrono::steady_clock::now();
    std::vector<uint32_t> words(request.spirv.size() / 4); // aligned, which bytes from Python may not be
    std::memcpy(words.data(), request.spirv.data(), request.spirv.size());
    VkShaderModuleCreateInfo code{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
    code.codeSize = request.spirv.size();
    code.pCode = words.data();
    VkShaderModule module = VK_NULL_HANDLE;
    device_.check(api().vkCreateShaderModule(device_.handle(), &code, nullptr, &module), "vkCreateShaderModule");

    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup{
        VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO};
    subgroup.requiredSubgroupSize = request.subgroup_size;
    VkPipelineCreationFeedback whole{}, stage{};
    VkPipelineCreationFeedbackCreateInfo feedback{VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO, nullptr,
                                                  &whole, 1, &stage};
    VkComputePipelineCreateInfo create{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
    if (device_.adapter.properties.apiVersion >= VK_API_VERSION_1_3) create.pNext = &feedback;
    create.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    create.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    create.stage.module = module;
    create.stage.pName = "main";
    if (request.subgroup_size) create.stage.pNext = &subgroup;
    if (!entries.empty()) create.stage.pSpecializationInfo = &constants;
    create.layout = pipeline->layout;
    VkResult result = api().vkCreateComputePipelines(device_.handle(), cache_, 1, &create, nullptr, &pipeline->handle);
    api().vkDestroyShaderModule(device_.handle(), module, nullptr);
    if (result < 0 && fault_of(result) == Fault::vulkan)
        throw Error(Fault::shader,
                    "the driver refused the shader: vkCreateComputePipelines returned " + result_name(result));
    device_.check(result, "vkCreateComputePipelines");
    pipeline->create_us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    pipeline->cache_hit = whole.flags & VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT;
    device_.counters.pipelines_created++;
    return pipeline;
}
} // namespace vkgrad
