"""Vulkan through Kompute: devices, buffers, pipelines, plans and their submission. Knows no tensor and no shape.

Exceptions come from `vkgrad.errors`; a caller's mistake is a `ValueError`, an offset outside a buffer an `IndexError`.

    device = Device()
    double = device.pipeline(spirv, n_buffers=2)                     # y[i] = 2 * x[i]
    x, y = device.buffer(4096, "upload"), device.buffer(4096, "download")
    plan = device.plan()
    plan.dispatch(double, [x, y], (4, 1, 1))
    plan.barrier("host")
    plan.finish()
    x.write(numpy.ones(1024, "f4"))
    device.wait(device.submit(plan))
    numpy.frombuffer(y, "f4")                                        # a view: copy it before y is used again
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

# Any object with the buffer protocol, for which typing has no word before Python 3.12
_Bytes: TypeAlias = Any
Kind = Literal["device", "upload", "download", "bar"]

def list_devices() -> list[dict[str, Any]]:
    """One dict a device: index, name, type (discrete, integrated, virtual, cpu, other), api_version, vendor_id,
    device_id, driver_version, driver_name, driver_info, uuid. Empty when the drivers have none.

    Raises: NoDriverError.
    """

def inspect_spirv(spirv: _Bytes) -> dict[str, Any]:
    """version, bindings (highest + 1), capabilities (numbers), local_size (before specialisation).

    Raises: ShaderError when it is no module that a driver could be given.
    """

def gather(target: _Bytes, source: _Bytes, rows: _Bytes) -> None:
    """Fill `target` with rows of `source`, by several threads where that is worth it. `rows` are 64-bit numbers; there
    are as many bytes in a row as `target` has for each.

    Raises: IndexError for a row that is not there.
    """

def has_loop(name: str) -> bool:
    """Whether `Nest` has a loop of this name: an op and what its first operand is, such as "add:f" (f float32, i int32,
    b truth value)."""

class Nest:
    """A loop nest over arrays in the host's memory, computed in blocks that fit a cache. Every value is a word.

    extents   of the places, the innermost axis last
    terms     how many terms each reduction joins
    code      instructions, operands first:
              ("load", slot, boolean, strides, offsets, limits, fill)
                  elements at offsets[term] + strides * coordinates,
                  where 0 <= constants[term] + coefficients * coordinates < bound for each of limits (coefficients,
                  constants, bound), else the word `fill`; one offset (and constant) may stand for all terms
              ("count", strides, offsets)                               that address as an integer
              ("constant", words)                                       one for all terms, or one for each
              ("compute", loop, operands)
              ("reduce", loop, [operand], from zero, not from the first term)
    stores    (slot, boolean, strides, offset, instruction)

    It trusts the addresses.
    """

    def __init__(self, extents: Sequence[int], terms: int, code: list[Any], stores: list[Any]) -> None: ...
    @property
    def blocks(self) -> int: ...
    def run(self, arrays: Sequence[Any], threads: int = 1) -> None:
        """On NumPy arrays, one per slot. What comes out does not depend on `threads`."""

def multiply(gemm: int, left: Any, right: Any, out: Any, threads: int) -> bool:
    """out = left @ right for stacks of float32 matrices, in parts by several threads. `gemm` is the address of a
    cblas_sgemm with 64-bit sizes, which must use one thread; False, and nothing done, where it cannot read a matrix.
    """

def forks() -> int:
    """How often this process came out of a fork since the module was loaded: a device belongs to one such count."""

class Buffer:
    """Device memory, given back with its last user (a plan that names it, a submission in flight).

    The host sees the kinds `upload`, `download` and `bar`, also through the buffer protocol (`numpy.frombuffer`). It
    must not touch bytes that a submission in flight uses; those of `download` are there after `barrier("host")` and a
    wait.
    """

    @property
    def nbytes(self) -> int: ...
    @property
    def kind(self) -> Kind: ...
    @property
    def host_visible(self) -> bool: ...
    @property
    def busy(self) -> bool:
        """Whether a `Replay` still copies from it, so that it must not be written."""
    def write(self, data: _Bytes, offset: int = 0, threads: int = 0) -> None:
        """By `threads` threads; 0: as many as the size is worth."""
    def read(self, offset: int = 0, nbytes: int | None = None) -> bytes: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Pipeline:
    """Lives as long as its device."""

    @property
    def n_buffers(self) -> int: ...
    @property
    def create_us(self) -> float: ...
    @property
    def cache_hit(self) -> bool:
        """Whether the driver found it in the loaded cache file, as far as it says."""
    @property
    def local_size(self) -> tuple[int, int, int]: ...

class Plan:
    """A list of operations: filled by one thread, finished, then submitted any number of times from any thread.

    Operations between two barriers may run in any order and side by side. Each plan begins with a barrier of its own,
    which orders it after everything submitted before. It keeps the buffers it names.
    """

    def dispatch(
        self,
        pipeline: Pipeline,
        buffers: Sequence[Buffer | tuple[Buffer, int, int]],
        groups: Sequence[int],
        push: _Bytes | None = None,
    ) -> None:
        """Run `pipeline` with `buffers` at bindings 0, 1, …; a tuple (buffer, offset, nbytes) binds a part.

        Raises: ValueError (count, groups, alignment of an offset, push constants), IndexError (outside the buffer),
        OutOfDeviceMemoryError (more bytes than a shader on this device sees).
        """
    def barrier(self, kind: Literal["compute", "full", "host"] = "compute") -> None:
        """compute: dispatch to dispatch; full: dispatches and copies among each other; host: before the host reads."""
    def copy(self, dst: Buffer, src: Buffer, nbytes: int, dst_offset: int = 0, src_offset: int = 0) -> None: ...
    def fill(self, dst: Buffer, word: int, offset: int = 0, nbytes: int | None = None) -> None:
        """Write a 32-bit word over and over; offset and nbytes are multiples of 4."""
    def timestamp(self) -> int:
        """Note the time when all before it has ended; returns its index."""
    def timestamps(self) -> list[float]:
        """Nanoseconds since the first timestamp, in the last submission, which must have been waited for."""
    def finish(self) -> Plan: ...
    @property
    def counts(self) -> dict[str, int]:
        """dispatches, barriers (with the leading one), copies, fills."""
    @property
    def copies_recorded(self) -> int: ...

class Replay:
    """One recording of a step, and where its arguments go."""

    def run(self, before: Plan | None, *arrays: Any) -> int:
        """Bring the arrays to the device and submit the plan, once its previous run is over; returns the ticket. A plan
        given as `before` goes first, in the same submission.

        0 when one of them is not as it was said to be (class, element type, extents, contiguous): nothing was done.
        Page-locked memory that it read from may be written again when it is no longer `busy`.
        """

    def timed_run(self, before: Plan | None, *arrays: Any) -> tuple[int, float, float]:
        """The same for who takes a step apart: also how many µs bringing the arrays and submitting took."""

class Device:
    """A Vulkan device with its queue, memory, pipelines and submissions. All of it may be used from any thread.

    index: as in `list_devices`; without one the best type, a CPU last.
    spin_us: how long a wait polls before it sleeps; by default 1000, and 0 on a CPU device.
    block_bytes: device memory is taken from the driver in blocks of this size.
    _mutate_barriers: for tests: record no barrier, which synchronization validation must notice. When not given,
    whether the environment has VKGRAD_TEST_DROP_BARRIERS.

    Raises: NoDriverError, NoDeviceError. Afterwards any method may raise OutOfDeviceMemoryError, DeviceLostError,
    DeviceClosedError, ForkedError.
    """

    def __init__(
        self,
        index: int | None = None,
        *,
        spin_us: int | None = None,
        block_bytes: int = ...,
        _mutate_barriers: bool | None = None,
    ) -> None: ...
    @property
    def info(self) -> dict[str, Any]:
        """What `list_devices` says and limits, features, extensions, memory_types, memory_kinds (kind -> index of its
        memory type), subgroup_size, subgroup_size_range, timestamp_period_ns, timestamp_bits, queue_family,
        cooperative_matrices, spin_us,
        copy_family (None: copies go by the same queue).
        """
    @property
    def counters(self) -> dict[str, int]:
        """Since the device was opened: see native/counters.hpp."""
    def buffer(self, nbytes: int, kind: Kind = "device") -> Buffer:
        """Contents are undefined.

        Raises: OutOfDeviceMemoryError; VulkanError when the device has no memory of this kind.
        """
    def page_locked(self, nbytes: int) -> Buffer:
        """Memory of the kind `download` which `Replay` knows by its address: a read-only array there is not copied by
        the host."""
    def pipeline(
        self,
        spirv: _Bytes,
        n_buffers: int,
        spec: Mapping[int, _Bytes] = ...,
        subgroup_size: int = 0,
        *,
        key: bytes | None = None,
    ) -> Pipeline:
        """The pipeline for this SPIR-V and these specialisation constants (id -> 4 or 8 bytes), made when first asked.
        `key` stands for the SPIR-V in the table: equal keys must mean equal SPIR-V.

        Raises: ShaderError.
        """
    def plan(self, copies: int = 3, timestamps: int = 0) -> Plan:
        """An empty plan that can be in flight `copies` times at once (once, with timestamps)."""
    def replay(
        self, plan: Plan, arguments: Sequence[tuple[Buffer, int, int, int, Sequence[int], bool, Buffer | None]]
    ) -> Replay:
        """A finished plan with its arguments: (place, offset, nbytes, NumPy's number of the element type, extents,
        whether page-locked arrays are copied from where they are, staging buffer or None). Where there is a staging
        buffer, or a page-locked array, the bytes travel by the queue for copies; else the host writes them in place.
        """
    def submit(self, plan: Plan | Sequence[Plan]) -> int:
        """Hand over finished plans in one submission; returns its ticket. Waits while all copies are in flight."""
    def done(self, ticket: int) -> bool: ...
    def wait(self, ticket: int, timeout: float | None = None) -> bool:
        """Wait for a ticket and all before it; False after `timeout` seconds. Ctrl-C interrupts."""
    def load_cache(self, path: str) -> str:
        """Take in a pipeline cache file: "loaded N bytes", "absent", or "ignored: " and why."""
    def save_cache(self, path: str) -> int:
        """Write the pipeline cache; returns the file's bytes."""
    def close(self) -> None:
        """Wait for what is in flight. Memory goes with the last buffer."""
    def _simulate_device_lost(self) -> None: ...
