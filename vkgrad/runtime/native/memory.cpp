#include "memory.hpp"
#include "device.hpp"
#include <algorithm>

namespace vkgrad {
static const char* const kind_names[memory_kinds] = {"device", "upload", "download", "bar"};

MemoryKind memory_kind(const std::string& name) {
    auto found = std::find(std::begin(kind_names), std::end(kind_names), name);
    if (found == std::end(kind_names))
        throw std::invalid_argument("buffer: kind \"" + name + "\" is none of device, upload, download, bar");
    return MemoryKind(found - std::begin(kind_names));
}
const char* name_of(MemoryKind kind) { return kind_names[size_t(kind)]; }

namespace {
const VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT,
                            coherent = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
                            cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
// Types that need a feature we do not switch on, or that cannot hold a buffer's bytes for long
const VkMemoryPropertyFlags unusable = VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT | VK_MEMORY_PROPERTY_PROTECTED_BIT |
                                       VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD;
struct Wish {
    VkMemoryPropertyFlags need, prefer, avoid;
};
// By MemoryKind. Mapped memory is always coherent: nothing here flushes or invalidates.
const Wish wishes[memory_kinds] = {
    {local, 0, visible}, // a small BAR window, where there is one, stays free for `bar`
    {visible | coherent, 0, local | cached},
    {visible | coherent, cached, local},
    {local | visible | coherent, 0, 0},
};

std::optional<uint32_t> best_type(const VkPhysicalDeviceMemoryProperties& memory, uint32_t allowed, const Wish& wish) {
    std::optional<uint32_t> best;
    int best_score = 0;
    for (uint32_t i = 0; i < memory.memoryTypeCount; i++) {
        const VkMemoryPropertyFlags flags = memory.memoryTypes[i].propertyFlags;
        if (!(allowed >> i & 1) || (flags & wish.need) != wish.need || flags & unusable) continue;
        auto has = [&](VkMemoryPropertyFlags bit) { return (flags & bit) != 0; };
        // What is preferred outweighs what is avoided: reading uncached memory is the worst of all.
        int score =
            4 * has(wish.prefer) - has(wish.avoid & local) - has(wish.avoid & visible) - has(wish.avoid & cached);
        if (!best || score > best_score) { // the driver lists the better type first
            best = i;
            best_score = score;
        }
    }
    return best;
}
} // namespace

MemoryPool::MemoryPool(LogicalDevice& device, VkDeviceSize block_bytes)
    : device_(device), block_bytes_(block_bytes),
      alignment_(std::max<VkDeviceSize>(256, device.adapter.limits().minStorageBufferOffsetAlignment)) {
    const uint32_t allowed = Block::memory_types(device);
    for (size_t kind = 0; kind < memory_kinds; kind++)
        types_[kind] = best_type(device.adapter.memory, allowed, wishes[kind]);
}

Span MemoryPool::take(VkDeviceSize nbytes, MemoryKind kind) {
    const auto type = types_[size_t(kind)];
    if (!type)
        throw Error(Fault::vulkan, device_.adapter.name() + " has no memory of kind \"" + name_of(kind) +
                                       "\": use kind \"" + (kind == MemoryKind::bar ? "upload" : "device") + "\"");
    const VkDeviceSize most = device_.adapter.properties11.maxMemoryAllocationSize;
    if (nbytes > most)
        throw Error(Fault::out_of_device_memory,
                    "a buffer of " + std::to_string(nbytes) + " bytes was asked for, but " + device_.adapter.name() +
                        " allocates at most " + std::to_string(most) + " at once: split the tensor");
    const VkDeviceSize length = (nbytes + alignment_ - 1) / alignment_ * alignment_;
    const bool map = kind != MemoryKind::device;
    Span span{nullptr, 0, length};
    if (length > block_bytes_ / 2) {
        span.block = std::make_shared<Block>(device_, length, *type, map);
        return span;
    }
    std::lock_guard<std::mutex> lock(mutex_);
    auto& blocks = shared_[size_t(kind)];
    for (auto& block : blocks)
        if (auto offset = block->take(length)) return {block, *offset, length};
    blocks.push_back(std::make_shared<Block>(device_, block_bytes_, *type, map));
    span.block = blocks.back();
    span.offset = *span.block->take(length);
    return span;
}

void MemoryPool::give_back(Span span, MemoryKind kind) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto& blocks = shared_[size_t(kind)];
    auto position = std::find(blocks.begin(), blocks.end(), span.block);
    if (position == blocks.end()) return; // a block to itself goes with the span
    span.block->give_back(span.offset, span.length);
    // One unused block is kept, so that a loop that allocates and frees does not reach the driver each time.
    auto unused = std::count_if(blocks.begin(), blocks.end(), [](auto& block) { return block->is_unused(); });
    if (span.block->is_unused() && unused > 1) blocks.erase(position);
}

Buffer::Buffer(std::shared_ptr<Device> device, VkDeviceSize nbytes, MemoryKind kind)
    : device_(std::move(device)), nbytes_(nbytes), kind_(kind) {
    device_->base.require_usable();
    if (!nbytes) throw std::invalid_argument("buffer: nbytes must be at least 1");
    span_ = device_->memory.take(nbytes, kind);
    auto& counters = device_->base.counters;
    counters.buffers_allocated++;
    counters.buffers_live++;
    counters.bytes_allocated += span_.length;
}

Buffer::~Buffer() {
    if (!span_.block) return;
    if (device_->base.forked()) { // not ours to free: see loader.hpp
        new Span(std::move(span_));
        return;
    }
    if (page_locked) device_->page_locked.remove(mapped());
    auto& counters = device_->base.counters;
    counters.buffers_live--;
    counters.bytes_allocated -= span_.length;
    device_->memory.give_back(std::move(span_), kind_);
}

char* Buffer::mapped() const {
    char* start = span_.block->mapped();
    return start ? start + span_.offset : nullptr;
}

void Buffer::require_inside(VkDeviceSize offset, VkDeviceSize length, const char* doing) const {
    if (offset > nbytes_ || length > nbytes_ - offset)
        throw std::out_of_range(std::string(doing) + ": bytes " + std::to_string(offset) + " to " +
                                std::to_string(offset + length) + " are not inside a buffer of " +
                                std::to_string(nbytes_) + " bytes");
}

bool Buffer::is_read_by_copies() const { return read_until && !device_->copy_timeline.is_done(read_until); }

void PageLocked::add(const std::shared_ptr<Buffer>& buffer) {
    std::lock_guard<std::mutex> lock(mutex_);
    starts_[buffer->mapped()] = buffer;
    buffer->page_locked = true;
}
void PageLocked::remove(const char* start) {
    std::lock_guard<std::mutex> lock(mutex_);
    starts_.erase(start);
}
std::shared_ptr<Buffer> PageLocked::find(const char* first, VkDeviceSize nbytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto after = starts_.upper_bound(first);
    if (after == starts_.begin()) return nullptr;
    auto [start, weak] = *std::prev(after);
    auto buffer = weak.lock();
    return buffer && first + nbytes <= start + buffer->nbytes() ? buffer : nullptr;
}
} // namespace vkgrad
