// One VkPipeline per SPIR-V and specialisation constants, shared by all buffers, and the driver's cache on disk.
#pragma once
#include "descriptors.hpp"
#include "spirv.hpp"
#include <map>
#include <string>

namespace vkgrad {
struct Pipeline { // lives as long as the device
    const LogicalDevice* device = nullptr;
    VkPipeline handle = VK_NULL_HANDLE;
    VkPipelineLayout layout = VK_NULL_HANDLE;
    uint32_t n_buffers = 0;
    SpirvInfo spirv;
    double create_us = 0;
    bool cache_hit = false; // made from the loaded cache file, as far as the driver says
};

struct PipelineRequest {
    std::string spirv;
    uint32_t n_buffers;
    std::map<uint32_t, std::string> constants; // id -> 4 or 8 bytes
    uint32_t subgroup_size;                    // 0: the driver's choice
    std::string key;                           // stands for `spirv` in the table, if the caller has a shorter name
};

class PipelineTable {
  public:
    PipelineTable(LogicalDevice& device, DescriptorPool& descriptors);
    ~PipelineTable();

    // From any thread; those not in the table are made side by side. Throws Error(shader).
    Pipeline* get(const PipelineRequest& request);

    // "loaded N bytes", "absent", or "ignored: " and why. A damaged or foreign file is never given to the driver.
    std::string load_cache(const std::string& path);
    size_t save_cache(const std::string& path); // bytes written; replaces the file as a whole

  private:
    void require_supported(const PipelineRequest& request, const SpirvInfo& spirv) const;
    std::unique_ptr<Pipeline> create(const PipelineRequest& request);

    LogicalDevice& device_;
    DescriptorPool& descriptors_;
    VkPipelineCache cache_ = VK_NULL_HANDLE; // the driver locks it itself
    std::mutex mutex_;
    std::unordered_map<std::string, std::unique_ptr<Pipeline>> pipelines_;
};
} // namespace vkgrad
