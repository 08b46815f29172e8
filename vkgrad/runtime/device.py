"""What the engine asks of a device. Both devices, Vulkan and CPU, run the same plans behind this interface."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from vkgrad.ir.node import Node
from vkgrad.schedule.kernel import Kernel
from vkgrad.schedule.plan import Plan
from vkgrad.schedule.split import Width
from vkgrad.schedule.stack import Stacking

Memory = Any  # a device's own handle on a piece of its memory
Use = Literal["device", "argument", "result"]  # argument: the host writes it in place; result: it reads it in place


@dataclass
class Job:
    """One run of a plan with its memory, as it is recorded.

    memory      plan buffer id -> memory, for inputs and outputs (temporaries are the device's business)
    uploads     (memory, bytes) to fill from the host before the kernels, in this order
    copies      (destination, source, bytes) on the device after the kernels
    downloads   (memory, bytes) that the host may read afterwards, in this order
    arrays      (element type, shape) of what fills `uploads`, where it is always the same
    """

    executable: Any | None
    memory: Mapping[int, Memory] = field(default_factory=dict)
    uploads: Sequence[tuple[Memory, int]] = ()
    copies: Sequence[tuple[Memory, Memory, int]] = ()
    downloads: Sequence[tuple[Memory, int]] = ()
    arrays: Sequence[tuple[np.dtype, tuple[int, ...]]] = ()


class Recording(Protocol):
    """A recorded job. It may be submitted again and again; its own previous run must be over before `write`."""

    dispatches: int
    barriers: int
    submissions: int

    def write(self, number: int, array: np.ndarray) -> None: ...
    def submit(self, before: Any = None) -> None:
        """Run; a recording given as `before` runs first, in the same submission."""
        ...

    def run(self, arrays: Sequence[np.ndarray], before: Any = None) -> bool:
        """Write all arrays and submit, after waiting for the previous run, in as little time as the host can.

        False where they are not what the job says they are: then nothing was done.
        """
        ...

    def is_done(self) -> bool: ...
    def wait(self) -> None: ...
    def read(self, number: int) -> np.ndarray:
        """The bytes of download `number`, after waiting for the last submission."""
        ...


class Device(Protocol):
    name: str
    kind: str  # "vulkan" or "cpu"
    software: bool  # Vulkan that runs on the CPU
    max_buffers: int  # buffers one kernel may bind
    largest_binding: int  # bytes of one buffer that a kernel can see
    width: Width | None  # how much it wants to do at once
    stacking: Stacking | None  # what it says of kernels that run as one, row after row
    beside: Callable[[Kernel], Hashable] | None  # kernels of one level with an equal key may share a dispatch

    def refuses(self, node: Node) -> str | None:
        """Why this device has no kernel for `node`, or None if it has."""
        ...

    def lacks(self, dtype: Any) -> str | None:
        """Why this device cannot compute with an element type, or None if it can."""
        ...

    def allocate(self, size_bytes: int, use: Use = "device") -> Memory: ...
    def page_locked(self, size_bytes: int) -> Any | None:
        """Host memory (a buffer) that the device copies a step's arguments from by itself, and is `busy` while it does.

        None where an array elsewhere gets there as fast."""
        ...

    def prepare(self, plan: Plan) -> Any: ...
    def record(self, job: Job) -> Recording: ...
    def storage(self, array: np.ndarray) -> np.ndarray:
        """The array as it is stored on this device (a bool may be wider there)."""
        ...

    def from_storage(self, raw: np.ndarray, dtype: Any, shape: tuple[int, ...]) -> np.ndarray: ...
