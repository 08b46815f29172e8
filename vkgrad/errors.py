"""Every exception that vkgrad raises on purpose.

A user's mistake is reported when the graph is built (`ShapeError`, `DTypeError`, `UnsupportedError`); trouble with a
device carries the driver's own words. This module must not import anything from the package: the native runtime
imports it by name.
"""

from __future__ import annotations


class VkgradError(Exception):
    """Base of every exception that vkgrad raises on purpose."""


class ConfigError(VkgradError, ValueError):
    """An environment switch or configuration value that is not allowed; the text names it and what it takes."""


class ShapeError(VkgradError, ValueError):
    """Shapes, axes or indices that do not fit together."""


class OptionError(VkgradError, ValueError):
    """An argument that is no array and outside of what a function takes: a rate, a probability, the name of a mode."""


class DTypeError(VkgradError, TypeError):
    """An element type that an operation or a device does not take."""


class NotBuiltError(VkgradError, ImportError):
    """The compiled part of vkgrad is not there: what was imported is its source, in a folder where it was not built."""


class UnsupportedError(VkgradError, NotImplementedError):
    """An operation with no kernel on the chosen device, refused because the host policy is `raise`."""


class DifferentiationError(VkgradError, ValueError):
    """A derivative that does not exist or was asked of something that is not a float tensor."""


class VulkanError(VkgradError, RuntimeError):
    """A Vulkan call failed; the text names the call and the driver's result."""


class NoDriverError(VulkanError):
    """No Vulkan loader or no driver was found."""


class NoDeviceError(VulkanError):
    """The chosen device does not exist; the text lists those that do."""


class OutOfDeviceMemoryError(VulkanError, MemoryError):
    """An allocation or a binding larger than the device allows."""


class DeviceLostError(VulkanError):
    """The device stopped answering. Its buffers are gone; open a new device."""


class ShaderError(VulkanError, ValueError):
    """GLSL or SPIR-V that was refused; the text carries the compiler's words."""


class CompilerError(VulkanError):
    """No GLSL compiler was found, or the one that was found cannot run; the text says how to get one."""


class DeviceClosedError(VulkanError):
    """The device was closed before this use."""


class ForkedError(DeviceClosedError):
    """Vulkan was opened before this process was forked; start processes with multiprocessing's `spawn` method."""


class DataError(VkgradError, ValueError):
    """A data file that is damaged, or arrays that do not belong together."""


class DataNotFoundError(VkgradError, FileNotFoundError):
    """A data set that is not on this machine; the text says which command brings it."""
