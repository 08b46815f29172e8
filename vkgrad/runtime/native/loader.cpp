#include "loader.hpp"
#include "error.hpp"
#include "sequence_pool.hpp"
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <pthread.h>
#include <string>
#include <unistd.h>

VULKAN_HPP_DEFAULT_DISPATCH_LOADER_DYNAMIC_STORAGE

namespace vkgrad {
static std::atomic<uint64_t> fork_count{0};
static std::atomic<bool> driver_loaded{false};

// Drivers take their device down when a process exits, and in a forked child that is the parent's: on one, the parent
// then read zeros. So a child leaves by `_exit`, before their exit handlers. Python has finished by then.
static void in_child() {
    fork_count++;
#ifdef __GLIBC__
    if (driver_loaded)
        on_exit(
            [](int status, void*) {
                std::fflush(nullptr);
                _exit(status);
            },
            nullptr);
#endif
}
// At load, so that no fork is missed, whenever the first device is opened.
static const int fork_handler = pthread_atfork(nullptr, nullptr, in_child);

uint64_t forks() {
    (void)fork_handler;
    return fork_count;
}

static const char* const install_a_driver =
    "install a Vulkan driver (Debian/Ubuntu: mesa-vulkan-drivers has one for GPUs and one for the CPU), or correct "
    "VK_DRIVER_FILES / VK_ICD_FILENAMES if set";

// VKGRAD_LIBVULKAN names another loader library; the tests play a machine without one through it.
static void* open_library() {
    std::vector<const char*> names{"libvulkan.so.1", "libvulkan.so"};
    if (const char* given = std::getenv("VKGRAD_LIBVULKAN")) names = {given};
    std::string reason;
    for (const char* name : names) {
        if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
        if (reason.empty()) reason = dlerror();
    }
    throw Error(Fault::no_driver, "the Vulkan loader could not be opened (" + reason +
                                      "): install it (Debian/Ubuntu: libvulkan1) together with a Vulkan driver "
                                      "(mesa-vulkan-drivers, or your GPU vendor's)");
}

static VkInstance create_instance() {
    static void* const library = open_library(); // a throw leaves it unset: the next call tries again
    auto entry = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
    if (!entry)
        throw Error(Fault::no_driver,
                    "the library opened as libvulkan has no vkGetInstanceProcAddr: reinstall libvulkan1");
    api().init(entry);
    uint32_t version = VK_API_VERSION_1_0;
    if (api().vkEnumerateInstanceVersion) api().vkEnumerateInstanceVersion(&version);
    if (version < VK_API_VERSION_1_2)
        throw Error(Fault::no_driver, "the Vulkan loader is older than 1.2: upgrade libvulkan1");

    VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
    application.pApplicationName = application.pEngineName = "vkgrad";
    application.apiVersion = std::min(version, uint32_t(VK_API_VERSION_1_3));
    VkInstanceCreateInfo create{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
    create.pApplicationInfo = &application;
    VkInstance made = VK_NULL_HANDLE;
    VkResult result = api().vkCreateInstance(&create, nullptr, &made);
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER)
        throw Error(Fault::no_driver, std::string("no Vulkan driver was found: ") + install_a_driver);
    check(result, "vkCreateInstance",
          result == VK_ERROR_LAYER_NOT_PRESENT ? "VK_INSTANCE_LAYERS names a layer that is not installed" : "");
    // The instance's entry points dispatch on their first argument, so one table serves any number of devices.
    api().init(vk::Instance(made));
    watch_kompute(); // last: it wraps entries of the finished table
    return made;
}

VkInstance instance() {
    static std::mutex mutex;
    static VkInstance made = VK_NULL_HANDLE; // lives to the end of the process
    static uint64_t forks_then = 0;
    std::lock_guard<std::mutex> lock(mutex);
    if (made && forks_then != forks())
        throw Error(Fault::forked,
                    "Vulkan was opened before this process was forked, and its drivers do not survive that: start "
                    "processes with multiprocessing's \"spawn\" method, or fork before the first use of a device");
    if (!made) {
        driver_loaded = true;
        made = create_instance();
        forks_then = forks();
    }
    return made;
}

std::vector<VkPhysicalDevice> physical_devices() {
    VkInstance on = instance();
    uint32_t count = 0;
    VkResult result = api().vkEnumeratePhysicalDevices(on, &count, nullptr);
    if (result == VK_ERROR_INITIALIZATION_FAILED) return {}; // what loaders say when every driver fails to start
    check(result, "vkEnumeratePhysicalDevices", install_a_driver);
    std::vector<VkPhysicalDevice> devices(count);
    if (count) check(api().vkEnumeratePhysicalDevices(on, &count, devices.data()), "vkEnumeratePhysicalDevices");
    devices.resize(count);
    return devices;
}
} // namespace vkgrad
