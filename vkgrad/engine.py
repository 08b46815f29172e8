"""Flush: from pending tensors to values, the only file that sees every stage.

    pending nodes -> structure -> plan (cached) -> device executable (cached) -> one recording -> one submission

The engine knows handles (tensors) only by their node and by whether their history must stay. Watchers subscribe to
`on_flush`; the engine calls nothing above it.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Protocol
from weakref import ref

import numpy as np

from vkgrad.codegen import cache
from vkgrad.config import config
from vkgrad.counters import add, count, count_host
from vkgrad.errors import NoDeviceError, NoValueError, UnsupportedError, VkgradError
from vkgrad.ir import build
from vkgrad.ir import node as node_module
from vkgrad.ir.dtypes import DType
from vkgrad.ir.node import Node, walk
from vkgrad.ir.op import Family
from vkgrad.ir.weak import WeakMap
from vkgrad.notice import notice
from vkgrad.ops.narrow import encoded, handed_out, meaning_of
from vkgrad.ops.sources import LEAF, leaf
from vkgrad.ops.views import alias
from vkgrad.runtime.device import Device, Job, Memory, Recording
from vkgrad.schedule.plan import Plan, build_plan, structure

MOST_PLANS = 256  # plans kept for reuse; the least recently used goes first
MOST_PENDING_NODES = 20_000  # a loop that never reads a value is flushed by itself after this many operations
MANY_PENDING_NODES = 1000  # or after these, between two of its steps, where each time the same is pending
MOST_IN_FLIGHT = 8  # submissions the host may run ahead


class Handle(Protocol):
    """What the engine knows of a tensor: its node, and whether that node's history must stay (backward() may come)."""

    node: Node  # says to who watches that it was looked at
    _node: Node  # the same, unsaid
    keeps_history: bool


@dataclass(eq=False)
class Value:
    """Device memory that holds a node's elements. `source` is host data that has not been uploaded yet.

    `landed` is set where a recording already brings the bytes back: (recording, number of its download). `fixed` memory
    belongs to recorded steps that write it again and again for the tensor `owner`, so nobody else may share it. `lent`
    memory is a recorded step's own, which it will write again: whoever wants to rely on it must move out. `hosted` says
    what the host computed, where it did.
    """

    device: Device
    memory: Memory
    size_bytes: int
    source: np.ndarray | None = None
    landed: tuple[Recording, int] | None = None
    fixed: bool = False
    owner: ref[Any] | None = None
    lent: bool = False
    hosted: str = ""


values: WeakMap[Node, Value] = WeakMap()  # a node with a value is never computed again
# Handles whose node had no value when they were made, in order of creation, so that plans do not change. Most are
# gone soon, as what stands between two operations is. Those are left out when the list is looked at.
pending: list[ref[Any]] = []
MOST_PENDING_HANDLES = 4096  # then it is looked at, for those that are gone
_most_pending = MOST_PENDING_HANDLES
_aside = threading.local()  # `handles`: what this thread keeps out of `pending` now
on_plan: list[Callable[[Sequence[Node], Plan], None]] = []  # asked for by whoever computes these nodes, or looks on
on_flush: list[Callable[[Plan | None, Recording], None]] = []
lock = threading.RLock()


class Trace(Protocol):
    """Who watches one thread's tensors while a function is recorded instead of run (see `vkgrad.tracing`)."""

    thread: int

    def made(self, handle: Any) -> None: ...
    def reads(self, handle: Any) -> None: ...
    def rebinds(self, handle: Any) -> None: ...
    def reads_gradient(self, handle: Any) -> None: ...
    def sets_gradient(self, handle: Any) -> None: ...
    def assumes(self, text: str, thing: Any, attribute: str) -> None: ...
    def uses(self, thing: Any, read: Callable[[Any], dict[str, Any]]) -> None: ...


trace: Trace | None = None  # one at a time, since recording holds the lock


def tracing() -> Trace | None:
    """The trace that watches this thread, if one does."""
    return trace if trace is not None and trace.thread == threading.get_ident() else None


_devices: dict[str, Device] = {}
_places: WeakMap[Node, Device] = WeakMap()  # where what is pending will be computed, once there are several devices
_plans: OrderedDict[tuple, tuple[Plan, Any]] = OrderedDict()
_in_flight: dict[int, Recording] = {}  # each once, by id, those submitted last at the end
_flushed_at = 0  # how many nodes there were when nothing was pending last
_stepped_at = 0  # how many there were when an optimiser's step ended last

# Goes up whenever a tensor of a built node is made, or a tensor gets another node, gradient or mode. While it stands
# still, what a recorded step relied on still holds, and nobody new can hold a value that it is about to overwrite.
changes = 0
renamings = 0  # goes up whenever an attribute of a module or an optimiser is set


def renamed() -> None:
    """An attribute of a module or an optimiser was set, which a recorded step may have relied on."""
    global changes, renamings
    changes += 1
    renamings += 1


def _after_fork() -> None:
    """In a forked child nobody runs who could give the lock back. What it then does with a device is refused there."""
    global lock
    lock = threading.RLock()
    _in_flight.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
cache.on_compile.append(lambda name: count(shaders_compiled=1))
node_module.intern_nodes = partial(getattr, config, "cse")


# ---- devices
def device(choice: str | None = None) -> Device:
    """The device for `choice` (an index, part of a name, or "cpu"), opened at its first use; by default VKGRAD_DEVICE.

    Raises: `NoDriverError`, `NoDeviceError` with what there is.
    """
    name = (config.device if choice is None else str(choice)).strip()
    with lock:
        if name not in _devices:
            _devices[name] = _open(name)
            atexit.register(_keep_threads_out)  # registered last, it runs before any device closes
        return _devices[name]


def opened() -> dict[str, Device]:
    """The devices that were opened so far, by the names they were asked for under."""
    return dict(_devices)


def _keep_threads_out() -> None:
    """At exit. Python ends daemon threads where they ask for the interpreter: in a driver's call that is an abort, so
    they are kept waiting for the lock instead."""
    lock.acquire(timeout=10)


def _open(choice: str) -> Device:
    if choice.lower() == "cpu":
        from vkgrad.runtime.cpu import CpuDevice

        return CpuDevice()
    from vkgrad.runtime import _native
    from vkgrad.runtime.vulkan import VulkanDevice

    if not choice:
        opened = VulkanDevice(None)
    else:
        found = _native.list_devices()
        wanted = [d for d in found if str(d["index"]) == choice or choice.lower() in d["name"].lower()]
        if not wanted:
            have = "; ".join(f"{d['index']}: {d['name']}" for d in found) or "none"
            raise NoDeviceError(f"no Vulkan device {choice!r}; there are {have}, and always 'cpu'")
        opened = VulkanDevice(wanted[0]["index"])
    cache.prewarm()
    for other in _devices.values():  # the same device under another name is one device
        if getattr(other, "info", {}).get("index", None) == opened.info["index"]:
            return other
    return opened


def default_device() -> Device:
    return device()


def set_device(choice: str) -> Device:
    """Make `choice` (an index, part of a name, or "cpu") the device of tensors made from now on."""
    opened = device(choice)
    config.set(device=str(choice))
    return opened


@contextmanager
def host_policy(policy: str) -> Iterator[None]:
    """Inside the block, what happens to an operation with no kernel on the device: "raise", "warn" or "allow"."""
    with config.override(host=policy):
        yield


def _refuse(node: Node) -> None:
    """Called for each node of a rare type when it is built: what the device cannot compute is refused here, not at the
    flush."""
    reason = device().refuses(node)
    if reason is not None and config.host == "raise":
        instead = "int32" if "shaderInt64" in reason else "float32"
        raise UnsupportedError(
            f"{node.op.name}: {node.dtype.name}{list(node.shape)} has no kernel on {device().name}: {reason}. "
            f"Use {instead} (.astype(vg.{instead})), the cpu device, or VKGRAD_HOST=allow to compute it on the host"
        )


build.on_rare.append(_refuse)


# ---- values in
def put(array: np.ndarray, dtype: DType, copy: bool = True) -> Node:
    """A new leaf holding `array`, or a copy of it, on the default device. It is uploaded with the next flush."""
    target = device()
    node = leaf(array.shape, dtype)
    elements = encoded(array, dtype)
    stored = np.array(elements, order="C") if copy else np.asarray(elements, order="C")
    values[node] = Value(target, None, node.size * dtype.size_bytes, source=stored if node.size else None)
    return node


def register(handle: Handle) -> None:
    """Called by every new tensor: it is pending until its node has a value."""
    global changes, _flushed_at
    if trace is not None and (watching := tracing()) is not None:
        watching.made(handle)
        return
    node = handle._node
    if node.op is not LEAF:
        changes += 1  # it may hold on to what a recorded step is about to overwrite
    if id(node) not in values.entries:
        if len(_devices) > 1:
            _refuse_meeting(node)
        if (unready := getattr(_aside, "handles", None)) is not None:
            unready.append(ref(handle))
            return
        if not pending:
            _flushed_at = node.serial
        pending.append(ref(handle))
        if len(pending) > _most_pending:
            waiting()
        if node.serial - _flushed_at > MOST_PENDING_NODES:
            flush()


def waiting() -> list[Any]:
    """The pending handles that are still there, each once."""
    global _most_pending
    with lock:
        seen = len(pending)  # what other threads add meanwhile stays behind these
        found = {id(handle): (handle, weak) for weak in pending[:seen] if (handle := weak()) is not None}
        pending[:seen] = [weak for _, weak in found.values()]
        _most_pending = max(MOST_PENDING_HANDLES, 2 * len(found))
        return [handle for handle, _ in found.values()]


@contextmanager
def aside() -> Iterator[None]:
    """While inside, what this thread records is pending for nobody: it may depend on nodes that never get a value."""
    before = getattr(_aside, "handles", None)
    _aside.handles = [] if before is None else before
    try:
        yield
    finally:
        own, _aside.handles = _aside.handles, before
        if before is None:
            handles = [handle for weak in own if (handle := weak()) is not None]
            never: set[Node] = set()  # what depends on a leaf that has no value
            for node in walk([handle.node for handle in handles], stop=has_value):
                if node not in values and (node.op.family is Family.LEAF or not never.isdisjoint(node.inputs)):
                    never.add(node)
            for handle in handles:
                if handle.node not in never:
                    register(handle)


def has_value(node: Node) -> bool:
    return id(node) in values.entries


def another(node: Node) -> Node:
    """A node with the value of `node`, which has one, that is not the same.

    Two tensors never have one leaf: a recorded step that updates the memory of one would change the other.
    """
    value = values[node]
    if tracing() is not None or node.op.family is not Family.LEAF or value.fixed:
        return alias(node)
    twin = leaf(node.shape, node.dtype)
    values[twin] = value
    return twin


# ---- plans
def plan_for(
    targets: Sequence[Node], target: Device, replaces: dict[int, int] | None = None
) -> tuple[Plan, Any, list[Node]]:
    """The plan and executable for `targets`, from the cache where a graph of this structure was seen before."""
    key, leaves = structure(targets, has_value)
    settings = (id(target), config.fuse, config.cse, config.matmul_acc, config.tune, tuple((replaces or {}).items()))
    with lock:
        found = _plans.get((key, settings))
        if found is None:
            plan = build_plan(
                targets,
                leaves,
                max_buffers=target.max_buffers,
                fuse=config.fuse,
                replaces=replaces,
                width=target.width,
                wide=config.matmul_acc == "f64",
                stacking=target.stacking,
                beside=target.beside,
            )
            count(plans_built=1)
            found = _plans[key, settings] = (plan, target.prepare(plan))
            while len(_plans) > MOST_PLANS:
                _plans.popitem(last=False)
        else:
            _plans.move_to_end((key, settings))
    for watch in on_plan:
        watch(targets, found[0])
    return *found, leaves


def clear_caches() -> None:
    """Forget plans, rendered shaders and SPIR-V, in memory and on disk."""
    from vkgrad.codegen import rendered

    with lock:
        _plans.clear()
        rendered.on_disk().clear()
        cache.clear()


# ---- flush
def device_of(nodes: Iterable[Node]) -> Device:
    """Where these nodes have their values, or will be computed."""
    nodes = list(nodes)
    found: dict[int, Device] = {}
    for node in walk(nodes, stop=has_value):
        value = values.get(node)
        if value is not None:
            found[id(value.device)] = value.device
    if len(found) > 1 and _forgotten(nodes):
        return device_of(nodes)
    if len(found) > 1:
        names = " and ".join(str(d.name) for d in found.values())
        raise VkgradError(
            f"tensors on different devices meet in one expression: {names}; make them on one, or write "
            "x.to_device(device)"
        )
    return next(iter(found.values()), None) or device()


def _refuse_meeting(node: Node) -> None:
    """Tensors of two devices are refused where the operation is written, not when its value is asked for."""
    found: dict[int, Device] = {}
    for part in walk(node.inputs, stop=lambda part: has_value(part) or part in _places):
        own = values[part].device if has_value(part) else _places.get(part)
        if own is not None:
            found[id(own)] = own
    if len(found) > 1:
        found = {0: device_of([node])}  # which raises, unless it finds a value that can be computed anew
    if found:
        _places[node] = next(iter(found.values()))


def _forgotten(nodes: Sequence[Node]) -> bool:
    """Forget values of nodes that depend on no data, such as counters: an equal one made for another device is the same
    node, which any device can compute. Whether there was one."""
    valued = [node for node in walk(nodes, stop=has_value) if has_value(node) and not values[node].fixed]
    made = [node for node in valued if all(part.op.family is not Family.LEAF for part in walk([node]))]
    for node in made:
        del values[node]
    return bool(made)


def evaluate(nodes: Iterable[Node], read: Sequence[Node] = ()) -> None:
    """Compute these nodes together, in one flush. Their values stay on the device; those still on the host go there.

    The values of `read` also travel back to the host, in the same submission.
    """
    with lock:
        nodes = list(nodes)
        targets = [node for node in dict.fromkeys((*nodes, *read)) if node not in values and node.size]
        on_host = [node for node in nodes if node.size and node in values and values[node].source is not None]
        for node in dict.fromkeys((*nodes, *read)):
            if not node.size and node not in values:
                _know({node: Value(device(), None, 0)})
        groups: dict[int, tuple[Device, list[Node]]] = {}
        if len(_devices) > 1:
            for node in targets:
                own = device_of([node])
                groups.setdefault(id(own), (own, []))[1].append(node)
        elif targets:
            groups[id(device())] = (device(), targets)
        for node in on_host:
            groups.setdefault(id(values[node].device), (values[node].device, []))
        for own, some in groups.values():
            if config.host != "raise":
                _host_nodes(some, own)
                some = [node for node in some if node not in values]
            _run(some, own, [node for node in read if node in some], [n for n in on_host if values[n].device is own])
        missing = [node for node in read if node in values and values[node].landed is None and node.size]
        for node in missing:
            _run([], values[node].device, [node])
        _settle()


def _host_nodes(targets: Sequence[Node], own: Device) -> None:
    """The one place where the host computes: ops that `own` refuses, one after the other, counted exactly."""
    for node in walk(targets, stop=has_value):
        if node in values or node.op.family is Family.LEAF or own.refuses(node) is None:
            continue
        if config.host == "warn":
            notice(f"{node.op.name} runs on the host: {own.refuses(node)}")
        arrays = [read_value(source).astype(source.dtype.computed.numpy) for source in node.inputs]
        with np.errstate(all="ignore"):
            result = encoded(meaning_of(node.op, node.dtype)(*arrays, **node.attributes), node.dtype)
        count_host(node.op.name, node.ndim, node.dtype.name, result.nbytes)
        _know({node: Value(own, None, node.size * node.dtype.size_bytes, source=result, hosted=repr(node))})


def upload_of(value: Value) -> tuple[Memory, int]:
    """Memory for a value whose data is still on the host."""
    if value.memory is None:
        value.memory = value.device.allocate(value.size_bytes)
    return value.memory, value.size_bytes


def _run(targets: Sequence[Node], own: Device, read: Sequence[Node], on_host: Sequence[Node] = ()) -> None:
    """Record and submit one job: upload what is needed or `on_host`, compute `targets`, download `read`."""
    global _flushed_at
    plan = executable = None
    leaves: list[Node] = []
    times = [perf_counter()]
    if targets:
        plan, executable, leaves = plan_for(targets, own)
    times.append(perf_counter())
    lost = [node for node in leaves if node not in values]
    if lost:
        raise NoValueError(_why_lost())
    memory: dict[int, Memory] = {}
    made: dict[int, Value] = {}
    results: dict[Node, Value] = {}
    copies: list[tuple[Memory, Memory, int]] = []
    needed = dict.fromkeys(values[node] for node in (*leaves, *read, *on_host) if node in values)
    waiting = [value for value in needed if value.source is not None]
    uploads = [upload_of(value) for value in waiting]
    if plan is not None:
        for number, buffer in enumerate(plan.buffers):
            if buffer.kind == "input":
                value = values[leaves[buffer.index]]
                if value.memory is None:  # no elements, but the kernel that joins none of them binds something
                    value.memory = own.allocate(4)
                memory[number] = value.memory
            elif buffer.kind == "output":
                made[number] = Value(own, own.allocate(buffer.size_bytes), buffer.size_bytes)
                memory[number] = made[number].memory
        for node, output in zip(targets, plan.outputs, strict=True):
            assert output is not None, "empty targets never reach a plan"
            value = made.get(output) or values[leaves[plan.buffers[output].index]]
            if value.fixed:
                copy = Value(own, own.allocate(value.size_bytes), value.size_bytes)
                copies.append((copy.memory, value.memory, value.size_bytes))
                value = copy
            results[node] = value
    fetched = [results.get(node) or values[node] for node in read]
    downloads = [(value.memory, value.size_bytes) for value in fetched]
    recording = own.record(Job(executable, memory, uploads, copies, downloads))
    for position, value in enumerate(waiting):
        assert value.source is not None
        recording.write(position, value.source)
    times.append(perf_counter())
    submit(plan, recording, flushes=1)
    times.append(perf_counter())
    if config.debug:
        _print_debug(plan, executable, times)
    # Only now: had anything failed, every tensor would still be as it was.
    _know(results)
    for value in waiting:
        value.source = None
    for position, value in enumerate(fetched):
        value.landed = (recording, position)
    _flushed_at = node_module.serial_now()


def _why_lost() -> str:
    """Why there is a leaf without a value, in words of what the user did."""
    if tracing() is not None or getattr(_aside, "handles", None) is not None:
        transform = "vg.jit is recording" if tracing() is not None else "vg.vmap is mapping"
        return (
            f"there is no value yet while {transform} the function; read it after the call, write vg.where instead of "
            "if, and pass what a loop counts to as a Python number"
        )
    return (
        "there is no value: the tensor was made inside a function under vg.jit or vg.vmap that did not return it, or a "
        "recorded step has updated it since; return it from the function"
    )


def _know(results: dict[Node, Value]) -> None:
    for node, value in results.items():
        values[node] = value
        if build.is_literal(node):
            build.forget_literals()


def _print_debug(plan: Plan | None, executable: Any, times: Sequence[float]) -> None:
    """What VKGRAD_DEBUG asks for of one flush; `times` are in seconds, before and after each stage."""
    if "plan" in config.debug and plan is not None:
        from vkgrad.schedule.explain import explain

        rows = {id(k): s.row for k, s in zip(plan.kernels, getattr(executable, "shaders", ()), strict=False)}
        print(explain(plan, lambda kernel: rows.get(id(kernel))), file=sys.stderr)
    if "timing" in config.debug:
        stages = zip(("plan", "record", "submit"), times, times[1:], strict=False)
        print("flush: " + ", ".join(f"{n} {1e6 * (b - a):.0f} us" for n, a, b in stages), file=sys.stderr)


def submit(plan: Plan | None, recording: Recording, flushes: int = 0, before: Recording | None = None) -> None:
    """Hand a recording to its device, and count it; one given as `before` runs first, in the same submission."""
    recording.submit(before)
    submitted(plan, recording, counts_of(plan, recording) | {"flushes": flushes})


def counts_of(plan: Plan | None, recording: Recording) -> dict[str, int]:
    """What one run of a recording counts as."""
    return {
        "submissions": recording.submissions,
        "dispatches": recording.dispatches,
        "barriers": recording.barriers,
        "nodes": plan.nodes if plan else 0,
    }


def submitted(plan: Plan | None, recording: Recording, counts: dict[str, int]) -> None:
    """Note a recording that was handed to its device, and what that counts as."""
    add(counts)
    _in_flight.pop(id(recording), None)
    _in_flight[id(recording)] = recording
    if len(_in_flight) > MOST_IN_FLIGHT:
        _in_flight.pop(next(iter(_in_flight))).wait()
    for watch in on_flush:
        watch(plan, recording)


def _settle() -> None:
    """Tensors whose value is known let go of the graph that made it, unless a gradient may still be asked of it."""
    handles = waiting()
    unknown = []
    for handle in handles:
        node = handle.node
        value = values.get(node)
        if value is None:
            unknown.append(ref(handle))
        elif not handle.keeps_history and node.op.family is not Family.LEAF:
            settled = leaf(node.shape, node.dtype)
            values[settled] = value
            handle.node = settled
    pending[: len(handles)] = unknown


def flush() -> None:
    """Compute everything pending, in one submission.

    Raises: whatever keeps one of the tensors from being computed, once; from then on they wait until they are read.
    """
    with lock:
        try:
            evaluate([handle.node for handle in waiting()])
        except Exception:
            pending.clear()
            raise


def stepped() -> None:
    """An optimiser's step has ended. Flushed here, a loop that reads nothing has a plan that is known from before."""
    global _stepped_at
    if tracing() is not None:
        return
    now, before = node_module.serial_now(), _stepped_at
    _stepped_at = now
    if before > _flushed_at and now - _flushed_at > MANY_PENDING_NODES:  # this step is not the only one
        flush()


def synchronize() -> None:
    """Wait until the devices have finished everything that was submitted."""
    with lock:
        while _in_flight:
            recording = next(reversed(_in_flight.values()))  # as a rule the others are over then
            recording.wait()
            _in_flight.pop(id(recording), None)


def read(node: Node) -> np.ndarray:
    """The value of `node` as a new NumPy array; computes everything pending first."""
    with lock:
        failed: Exception | None = None
        if node not in values:
            try:
                evaluate([handle.node for handle in waiting()], read=[node])
            except Exception as error:
                # Perhaps another tensor is too large: whoever reads that one gets the error. This one goes alone, and
                # if the trouble is its own it comes up again.
                pending.clear()
                failed = error
        value = read_value(node)
        if failed is not None:
            notice(f"another pending tensor could not be computed ({failed}); this one was, alone")
        return value


def read_value(node: Node) -> np.ndarray:
    """The value of one node, computed alone if need be."""
    if node not in values:
        evaluate((), read=[node])
    value = values[node]
    if not node.size:
        return np.empty(node.shape, node.dtype.numpy)
    if value.source is not None:
        return handed_out(value.source.copy(), node.dtype)
    if value.landed is None:
        _run([], value.device, [node])
    assert value.landed is not None
    recording, number = value.landed
    raw = recording.read(number)
    value.landed = None
    count(bytes_downloaded=raw.nbytes)
    return np.array(value.device.from_storage(raw, node.dtype, node.shape))
