#include "logical_device.hpp"
#include "features.hpp"
#include "loader.hpp"

namespace vkgrad {
LogicalDevice::LogicalDevice(Adapter chosen, bool drop)
    : adapter(std::move(chosen)), drop_barriers(drop), forks_at_open_(forks()) {
    physical = adapter.handle;
    device = open_logical_device(adapter);
    auto first_of = [this](uint32_t family) {
        VkQueue first = VK_NULL_HANDLE;
        api().vkGetDeviceQueue(device, family, 0, &first);
        return first;
    };
    queue = first_of(adapter.queue_family);
    copy_queue = first_of(copy_family());
}
LogicalDevice::~LogicalDevice() { api().vkDestroyDevice(device, nullptr); }

bool LogicalDevice::forked() const { return forks() != forks_at_open_; }

void LogicalDevice::require_usable() const {
    if (forked())
        throw Error(Fault::forked,
                    "this device was opened before the process was forked, and does not survive that: start "
                    "processes with multiprocessing's \"spawn\" method");
    if (closed) throw Error(Fault::closed, "this device is closed: open a new Device");
    if (lost)
        throw Error(Fault::device_lost, "this device was lost earlier and its buffers are gone: open a new Device");
}

void LogicalDevice::check(VkResult result, const char* call, const std::string& detail) {
    if (result == VK_ERROR_DEVICE_LOST) {
        lost = true;
        vkgrad::check(result, call, "the device stopped answering and its buffers are gone: open a new Device");
    }
    vkgrad::check(result, call, detail);
}
} // namespace vkgrad
