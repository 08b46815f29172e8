"""Every exception that vkgrad raises on purpose.

A user's mistake is reported when the graph is built (`ShapeError`, `DTypeError`, `UnsupportedError`); trouble with a
device carries the driver's own words. This module must not import anything from the package: the native runtime
imports it by name.
"""

from __future__ import annotations

from collections.abc import Callable


class VkgradError(Exception):
    """Base of every exception that vkgrad raises on purpose.

    `place` names the module of a model in which it was raised, `Sequential.2 (Linear)`. The text begins with it, in
    place of the name of the function that the module called.
    """

    place: str = ""
    raised_in: int | None = None  # the id of that module, which lives as long as the traceback

    def __str__(self) -> str:
        text = super().__str__()
        if not self.place:
            return text
        call, colon, rest = text.partition(": ")
        kind = self.place.rpartition("(")[2].strip(")")
        repeats = colon and kind.lower().startswith(call.replace("_", "").lower())
        return f"{self.place}: {rest if repeats else text}"


class ConfigError(VkgradError, ValueError):
    """An environment switch or configuration value that is not allowed; the text names it and what it takes."""


class ShapeError(VkgradError, ValueError):
    """Shapes, axes or indices that do not fit together."""


class OptionError(VkgradError, ValueError):
    """An argument that is no array and outside of what a function takes: a rate, a probability, the name of a mode."""


class UnknownNameError(VkgradError, AttributeError):
    """An attribute that is not there; the text says which was meant.

    `suggest` finds that once the text is read: programs ask with `hasattr` for much that is not there.
    """

    def __init__(self, text: str, suggest: Callable[[], str] | None = None) -> None:
        super().__init__(text)
        self.suggest = suggest

    def __str__(self) -> str:
        suggestion = self.suggest() if self.suggest is not None else ""
        return f"{self.args[0]}; {suggestion}" if suggestion else self.args[0]

    def __reduce__(self) -> tuple:
        return UnknownNameError, (str(self),)


class ArgumentError(VkgradError, TypeError):
    """An argument that is none of what a call takes: a list of layers for layers, text for a number."""


class NoValueError(VkgradError, RuntimeError):
    """A value was asked for where there is none: inside a function that is being recorded or mapped, or after it."""


class NonFiniteError(VkgradError, ArithmeticError):
    """A value that is infinite or not a number, where training cannot go on."""


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
