// Buffers of four kinds, sub-allocated from blocks.
#pragma once
#include "block.hpp"
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace vkgrad {
class Device;

enum class MemoryKind {
    device,   // for shaders; the host cannot see it
    upload,   // the host writes, copies read
    download, // copies write, the host reads: cached, because uncached reads are 10 to 100 times slower
    bar,      // in device memory and written by the host directly; never read by it
};
constexpr size_t memory_kinds = 4;
MemoryKind memory_kind(const std::string& name); // throws std::invalid_argument
const char* name_of(MemoryKind kind);

struct Span {
    std::shared_ptr<Block> block;
    VkDeviceSize offset = 0, length = 0;
};

class MemoryPool {
  public:
    MemoryPool(LogicalDevice& device, VkDeviceSize block_bytes);
    Span take(VkDeviceSize nbytes, MemoryKind kind);
    void give_back(Span span, MemoryKind kind);
    std::optional<uint32_t> memory_type(MemoryKind kind) const { return types_[size_t(kind)]; }

  private:
    LogicalDevice& device_;
    const VkDeviceSize block_bytes_, alignment_;
    std::array<std::optional<uint32_t>, memory_kinds> types_;
    std::mutex mutex_;
    std::array<std::vector<std::shared_ptr<Block>>, memory_kinds> shared_; // large buffers have a block to themselves
};

class Buffer;

// Host memory that the device's copy engine reads where it is, by address: NumPy arrays over it are uploaded from there.
class PageLocked {
  public:
    void add(const std::shared_ptr<Buffer>& buffer);
    void remove(const char* start);
    std::shared_ptr<Buffer> find(const char* first, VkDeviceSize nbytes); // null: those bytes are in none of them

  private:
    std::mutex mutex_;
    std::map<const char*, std::weak_ptr<Buffer>> starts_;
};

// A span of a block, given back with its last user. Plans keep the buffers they use, and submissions their plans.
class Buffer {
  public:
    Buffer(std::shared_ptr<Device> device, VkDeviceSize nbytes, MemoryKind kind);
    ~Buffer();
    Buffer(const Buffer&) = delete;

    Device& device() const { return *device_; }
    MemoryKind kind() const { return kind_; }
    VkDeviceSize nbytes() const { return nbytes_; }
    VkBuffer handle() const { return span_.block->buffer(); }
    VkDeviceSize offset() const { return span_.offset; } // of its first byte in handle()
    char* mapped() const;                                // null unless the host sees it
    // Neighbours share the VkBuffer, so no driver would notice an overrun. Throws std::out_of_range.
    void require_inside(VkDeviceSize offset, VkDeviceSize length, const char* doing) const;
    bool is_read_by_copies() const; // whether a copy from it is under way on the queue for copies

    std::atomic<uint64_t> read_until{0}; // the ticket of the last such copy
    bool page_locked = false;            // whether Device::page_locked knows it

  private:
    std::shared_ptr<Device> device_;
    Span span_;
    const VkDeviceSize nbytes_;
    const MemoryKind kind_;
};
} // namespace vkgrad
