// The disk side of PipelineTable. A driver trusts the bytes it is given, so a header of our own goes before them:
// whose they are, how many, and a checksum.
#include "pipelines.hpp"
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

namespace vkgrad {
namespace {
struct Header {
    char magic[8];
    uint32_t vendor_id, device_id, driver_version, reserved;
    uint8_t uuid[VK_UUID_SIZE];
    uint64_t nbytes, checksum;
};
static_assert(sizeof(Header) == 56, "no padding: it is compared and written as bytes");

uint64_t fnv1a(const char* data, size_t nbytes) {
    uint64_t hash = 14695981039346656037ull;
    for (size_t i = 0; i < nbytes; i++) hash = (hash ^ uint8_t(data[i])) * 1099511628211ull;
    return hash;
}

Header header_for(const VkPhysicalDeviceProperties& device, const char* data, size_t nbytes) {
    Header header{{'v', 'k', 'g', 'r', 'a', 'd', '0', '1'},
                  device.vendorID,
                  device.deviceID,
                  device.driverVersion,
                  0,
                  {},
                  nbytes,
                  fnv1a(data, nbytes)};
    std::memcpy(header.uuid, device.pipelineCacheUUID, VK_UUID_SIZE);
    return header;
}
} // namespace

std::string PipelineTable::load_cache(const std::string& path) {
    device_.require_usable();
    std::ifstream file(path, std::ios::binary);
    if (!file) return "absent";
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    if (bytes.size() < sizeof(Header)) return "ignored: too short";
    Header header;
    std::memcpy(&header, bytes.data(), sizeof header);
    const char* data = bytes.data() + sizeof header;
    const size_t nbytes = bytes.size() - sizeof header;
    const Header expected = header_for(device_.adapter.properties, data, nbytes);
    if (std::memcmp(header.magic, expected.magic, sizeof header.magic))
        return "ignored: not a pipeline cache of this version of vkgrad";
    if (header.vendor_id != expected.vendor_id || header.device_id != expected.device_id)
        return "ignored: made on another device";
    if (header.driver_version != expected.driver_version || std::memcmp(header.uuid, expected.uuid, sizeof header.uuid))
        return "ignored: made by another version of the driver";
    if (header.nbytes != expected.nbytes || header.checksum != expected.checksum)
        return "ignored: truncated or damaged";

    VkPipelineCacheCreateInfo create{VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    create.initialDataSize = nbytes;
    create.pInitialData = data;
    VkPipelineCache loaded = VK_NULL_HANDLE;
    device_.check(api().vkCreatePipelineCache(device_.handle(), &create, nullptr, &loaded), "vkCreatePipelineCache");
    VkResult result = api().vkMergePipelineCaches(device_.handle(), cache_, 1, &loaded);
    api().vkDestroyPipelineCache(device_.handle(), loaded, nullptr);
    device_.check(result, "vkMergePipelineCaches");
    return "loaded " + std::to_string(nbytes) + " bytes";
}

size_t PipelineTable::save_cache(const std::string& path) {
    device_.require_usable();
    size_t nbytes = 0;
    device_.check(api().vkGetPipelineCacheData(device_.handle(), cache_, &nbytes, nullptr), "vkGetPipelineCacheData");
    std::string data(nbytes, '\0');
    device_.check(api().vkGetPipelineCacheData(device_.handle(), cache_, &nbytes, data.data()),
                  "vkGetPipelineCacheData");
    data.resize(nbytes);
    const Header header = header_for(device_.adapter.properties, data.data(), nbytes);
    // Written beside and renamed over: two processes may save at once, and neither may read half a file.
    const std::string beside = path + "." + std::to_string(std::chrono::steady_clock::now().time_since_epoch().count());
    std::ofstream file(beside, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&header), sizeof header);
    file.write(data.data(), std::streamsize(nbytes));
    file.close();
    if (!file || std::rename(beside.c_str(), path.c_str())) {
        std::remove(beside.c_str());
        throw Error(Fault::vulkan, "the pipeline cache could not be written to " + path +
                                       ": check that its folder exists and is writable");
    }
    return sizeof header + nbytes;
}
} // namespace vkgrad
