# Headers only: every Vulkan call goes through vulkan.hpp's table of entry points, which loader.cpp fills at run time from
# libvulkan.so.1. So there is no libvulkan at link time, and none is needed to import the module.
find_path(VULKAN_INCLUDE_DIR vulkan/vulkan.hpp HINTS "$ENV{VULKAN_SDK}/include")
if(NOT VULKAN_INCLUDE_DIR)
  message(FATAL_ERROR "vkgrad: the Vulkan headers (vulkan/vulkan.hpp) were not found. Install them and build again: "
    "Debian/Ubuntu: apt-get install libvulkan-dev; Fedora: dnf install vulkan-headers; Arch: pacman -S vulkan-headers; "
    "or set VULKAN_SDK to an unpacked Vulkan SDK.")
endif()
add_library(vulkan_headers INTERFACE)
target_include_directories(vulkan_headers SYSTEM INTERFACE "${VULKAN_INCLUDE_DIR}")
target_compile_definitions(vulkan_headers INTERFACE
  VK_NO_PROTOTYPES=1 VULKAN_HPP_DISPATCH_LOADER_DYNAMIC=1 VULKAN_HPP_NO_SMART_HANDLE=1)
