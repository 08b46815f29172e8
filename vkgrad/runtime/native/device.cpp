#include "device.hpp"
#include <algorithm>

namespace vkgrad {
namespace {
std::mutex open_mutex;
std::vector<std::weak_ptr<Device>> open_devices;
// Polling finds a short step 10 to 40 us sooner than sleeping. A CPU "device" needs the core to do the work.
uint32_t default_spin_us(const Adapter& adapter) { return adapter.is_cpu() ? 0 : 1000; }
} // namespace

Device::Device(const DeviceOptions& options)
    : base(choose_adapter(options.index), options.drop_barriers),
      spin_us(options.spin_us.value_or(default_spin_us(base.adapter))), memory(base, options.block_bytes),
      descriptors(base), pipelines(base, descriptors), sequences(base, base.queue, base.adapter.queue_family),
      copy_sequences(base, base.copy_queue, base.copy_family()), timeline(base, base.queue),
      copy_timeline(base, base.copy_queue, true) {}

void Device::drain() noexcept {
    copy_timeline.drain();
    timeline.drain();
}

std::shared_ptr<Device> Device::open(const DeviceOptions& options) {
    auto destroy = [](Device* device) {
        if (device->base.forked()) return; // not ours to free: see loader.hpp
        device->drain();
        delete device;
    };
    std::shared_ptr<Device> device(new Device(options), destroy);
    std::lock_guard<std::mutex> lock(open_mutex);
    auto is_gone = [](auto& weak) { return weak.expired(); };
    open_devices.erase(std::remove_if(open_devices.begin(), open_devices.end(), is_gone), open_devices.end());
    open_devices.push_back(device);
    return device;
}

void Device::close() {
    base.closed = true; // first: nothing is submitted after the drain
    drain();
}

void close_all_devices() {
    std::vector<std::weak_ptr<Device>> devices;
    {
        std::lock_guard<std::mutex> lock(open_mutex);
        devices.swap(open_devices);
    }
    for (auto& weak : devices)
        if (auto device = weak.lock()) device->close();
}
} // namespace vkgrad
