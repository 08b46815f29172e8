#include "operations.hpp"
#include "device.hpp"

namespace vkgrad {
namespace {
const VkPipelineStageFlags shader = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, transfer = VK_PIPELINE_STAGE_TRANSFER_BIT;
const VkAccessFlags shader_read = VK_ACCESS_SHADER_READ_BIT, shader_write = VK_ACCESS_SHADER_WRITE_BIT,
                    transfer_read = VK_ACCESS_TRANSFER_READ_BIT, transfer_write = VK_ACCESS_TRANSFER_WRITE_BIT;
const Barrier::Side shaders_wrote{shader, shader_write}, shaders_use{shader, shader_read | shader_write};
const Barrier::Side all_wrote{shader | transfer, shader_write | transfer_write};
const Barrier::Side all_use{shader | transfer, shader_read | shader_write | transfer_read | transfer_write};
const Barrier::Side host_reads{VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT};

std::string number(uint64_t value) { return std::to_string(value); }
} // namespace

Barrier Barrier::named(const std::string& kind) {
    if (kind == "compute") return {shaders_wrote, shaders_use};
    if (kind == "full") return {all_wrote, all_use};
    if (kind == "host") return {all_wrote, host_reads};
    throw std::invalid_argument("barrier: kind \"" + kind + "\" is none of compute, full, host");
}
Barrier Barrier::leading() { return {all_wrote, all_use}; }
Barrier Barrier::leading_copies() {
    return {{transfer, transfer_write}, {transfer, transfer_read | transfer_write}};
}
void Barrier::record(const vk::CommandBuffer& buffer) {
    VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, before.access, after.access};
    api().vkCmdPipelineBarrier(buffer, before.stages, after.stages, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

static void require_own(Device& device, const Buffer& buffer, const std::string& what) {
    if (&buffer.device() != &device)
        throw std::invalid_argument(what + " belongs to another device: copy its values over");
}

static VkDescriptorBufferInfo descriptor(Device& device, const BufferRange& range, size_t position) {
    const auto& limits = device.base.adapter.limits();
    const std::string what = "dispatch: buffer " + number(position);
    require_own(device, *range.buffer, what);
    range.buffer->require_inside(range.offset, range.nbytes, what.c_str());
    if (range.nbytes == 0) throw std::invalid_argument(what + " has no bytes");
    if (range.offset % limits.minStorageBufferOffsetAlignment)
        throw std::invalid_argument(what + ": its offset " + number(range.offset) +
                                    " is not a multiple of this device's alignment, " +
                                    number(limits.minStorageBufferOffsetAlignment));
    if (range.nbytes > limits.maxStorageBufferRange)
        throw Error(Fault::out_of_device_memory, what + " has " + number(range.nbytes) +
                                                     " bytes, but a shader on this device sees at most " +
                                                     number(limits.maxStorageBufferRange) + ": bind a part of it");
    return {range.buffer->handle(), range.buffer->offset() + range.offset, range.nbytes};
}

Dispatch::Dispatch(Device& device, const Pipeline& pipeline, const std::vector<BufferRange>& ranges,
                   std::array<uint32_t, 3> groups, std::string push)
    : pipeline_(pipeline), groups_(groups), push_(std::move(push)) {
    const auto& limits = device.base.adapter.limits();
    if (pipeline.device != &device.base)
        throw std::invalid_argument("dispatch: the pipeline belongs to another device: make it anew on this one");
    if (ranges.size() != pipeline.n_buffers)
        throw std::invalid_argument("dispatch: the pipeline takes " + number(pipeline.n_buffers) + " buffers, given " +
                                    number(ranges.size()));
    for (int axis = 0; axis < 3; axis++)
        if (groups[axis] == 0 || groups[axis] > limits.maxComputeWorkGroupCount[axis])
            throw std::invalid_argument("dispatch: " + number(groups[axis]) + " workgroups on axis " + number(axis) +
                                        " are not within 1 to " + number(limits.maxComputeWorkGroupCount[axis]));
    if (push_.size() % 4 || push_.size() > limits.maxPushConstantsSize)
        throw std::invalid_argument("dispatch: " + number(push_.size()) +
                                    " bytes of push constants; a multiple of 4 up to " +
                                    number(limits.maxPushConstantsSize) + " is allowed");
    std::vector<VkDescriptorBufferInfo> descriptors;
    for (auto& range : ranges) {
        descriptors.push_back(descriptor(device, range, descriptors.size()));
        buffers_.push_back(range.buffer);
    }
    set_ = std::make_unique<DescriptorSet>(device.descriptors, descriptors);
}
void Dispatch::record(const vk::CommandBuffer& buffer) {
    api().vkCmdBindPipeline(buffer, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline_.handle);
    api().vkCmdBindDescriptorSets(buffer, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline_.layout, 0, 1, &set_->handle(), 0,
                                  nullptr);
    if (!push_.empty())
        api().vkCmdPushConstants(buffer, pipeline_.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, uint32_t(push_.size()),
                                 push_.data());
    api().vkCmdDispatch(buffer, groups_[0], groups_[1], groups_[2]);
}

Copy::Copy(Device& device, std::shared_ptr<Buffer> destination, std::shared_ptr<Buffer> source, VkDeviceSize nbytes,
           VkDeviceSize to, VkDeviceSize from)
    : destination_(std::move(destination)), source_(std::move(source)),
      region_{source_->offset() + from, destination_->offset() + to, nbytes} {
    require_own(device, *destination_, "copy: destination");
    require_own(device, *source_, "copy: source");
    destination_->require_inside(to, nbytes, "copy: destination");
    source_->require_inside(from, nbytes, "copy: source");
    if (!nbytes) throw std::invalid_argument("copy: nbytes must be at least 1");
    const bool apart = source_->handle() != destination_->handle() || region_.srcOffset + nbytes <= region_.dstOffset ||
                       region_.dstOffset + nbytes <= region_.srcOffset;
    if (!apart) throw std::invalid_argument("copy: source and destination overlap; copy through another buffer");
}
void Copy::record(const vk::CommandBuffer& buffer) {
    api().vkCmdCopyBuffer(buffer, source_->handle(), destination_->handle(), 1, &region_);
}

Fill::Fill(Device& device, std::shared_ptr<Buffer> destination, uint32_t word, VkDeviceSize offset, VkDeviceSize nbytes)
    : destination_(std::move(destination)), offset_(offset), nbytes_(nbytes), word_(word) {
    require_own(device, *destination_, "fill: the buffer");
    destination_->require_inside(offset, nbytes, "fill");
    if (!nbytes || nbytes % 4 || offset % 4)
        throw std::invalid_argument("fill: offset and nbytes must be multiples of 4, and nbytes not 0");
}
void Fill::record(const vk::CommandBuffer& buffer) {
    api().vkCmdFillBuffer(buffer, destination_->handle(), destination_->offset() + offset_, nbytes_, word_);
}

void ResetTimestamps::record(const vk::CommandBuffer& buffer) { api().vkCmdResetQueryPool(buffer, pool, 0, count); }
void Timestamp::record(const vk::CommandBuffer& buffer) {
    api().vkCmdWriteTimestamp(buffer, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool, index);
}
} // namespace vkgrad
