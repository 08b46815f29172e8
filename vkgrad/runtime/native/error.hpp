// The one C++ exception for trouble with Vulkan. A caller's mistake is std::invalid_argument (ValueError in Python) or
// std::out_of_range (IndexError). Knows nothing of Python: bindings.cpp turns a Fault into a class of vkgrad.errors.
#pragma once
#include "vulkan_api.hpp"
#include <stdexcept>
#include <string>

namespace vkgrad {
enum class Fault { vulkan, no_driver, no_device, out_of_device_memory, device_lost, shader, closed, forked };

struct Error : std::runtime_error {
    Fault fault;
    Error(Fault f, const std::string& text) : std::runtime_error(text), fault(f) {}
};

std::string result_name(VkResult result);
Fault fault_of(VkResult result);

// Throws when `result` is an error; the text names the call, the result, and `detail`: what was asked, what to do.
void check(VkResult result, const char* call, const std::string& detail = {});
} // namespace vkgrad
