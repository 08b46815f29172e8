"""`vg.jit`: record a function once per input structure, then replay the recording.

The first call with inputs of some structure runs the Python function on placeholders and records everything it
computes as one sequence: upload of the arguments, kernels, read-back of small results. Every later call writes the
arguments into mapped memory and submits that sequence. No graph is built, nothing is scheduled, compiled or allocated.

Tensors that the function assigns to (the parameters and the state of an optimiser) are updated in place. A few
recordings of the same step take turns, so that the host runs ahead of the device. This module must not know kernels.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import Any
from weakref import ref

import numpy as np

from vkgrad import engine, history
from vkgrad.counters import count
from vkgrad.errors import VkgradError
from vkgrad.ir.dtypes import DType, dtype_of
from vkgrad.ir.node import Node
from vkgrad.ir.op import Family
from vkgrad.ops.sources import leaf
from vkgrad.runtime.device import Device, Job, Memory, Recording
from vkgrad.tensor import Tensor

RING = 3  # recordings of one step that take turns
SMALL_BYTES = 1 << 16  # results up to this size travel back with the step itself
MANY_TRACES = 8  # more than this of one function deserves a warning


Owner = Callable[[], "Tensor | None"]  # a weak reference to a tensor


@dataclass
class State:
    """A tensor outside the function that it reads, and perhaps assigns to: always in the same memory.

    `references` is how many references to its leaf there are when nobody but the tensor and its recording hold it.
    """

    handle: Owner
    node: Node
    value: engine.Value
    assigned: bool
    references: int = 0


@dataclass
class Slot:
    """One recording with the memory of its results."""

    recording: Recording
    results: list[engine.Value]
    taken: list[ref[Tensor]] = field(default_factory=list)


class Trace:
    """What a function did while it was recorded: the tensors it made and those it assigned to."""

    def __init__(self) -> None:
        self.rebound: dict[int, tuple[Tensor, Node]] = {}
        self.kept: list[Tensor] = []

    def made(self, handle: Any) -> None:
        """Nothing made while recording is ever pending."""

    def rebinds(self, handle: Any) -> None:
        self.rebound.setdefault(id(handle), (handle, handle.node))

    def assigned(self) -> list[tuple[Tensor, Node]]:
        """Each tensor whose node changed for good, with its node before."""
        return [(handle, old) for handle, old in self.rebound.values() if handle.node is not old]


def jit(function: Callable[..., Any]) -> Jitted:
    """Record `function` once per structure, shapes and types of its inputs, then replay the recording.

    Arguments may be tensors, NumPy arrays, modules, optimisers, Python values, and nestings of these in dicts, lists
    and tuples. A Python value is part of the structure: another value records anew (`.explain()` says why). Tensors
    outside that the function assigns to are updated in place.

    Raises:
        VkgradError: the function reads a value that depends on its arguments.

    Example:
        >>> import vkgrad as vg
        >>> double = vg.jit(lambda x: x * 2)
        >>> double(vg.tensor([1.0, 2.0])).tolist()
        [2.0, 4.0]
    """
    return Jitted(function)


class Jitted:
    """A recorded function. Call it like the function itself."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.steps: dict[tuple, Step] = {}
        self.reasons: list[str] = []
        update_wrapper(self, function)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        inputs: list[Any] = []
        key = _structure((arguments, named) if named else arguments, inputs)
        if engine.trace is not None or history.must_keep(inputs):
            return self.function(*arguments, **named)
        step = self.steps.get(key)
        if step is None:
            step = self._record(key, arguments, named)
        return step.run(inputs)

    def _record(self, key: tuple, arguments: tuple, named: dict[str, Any]) -> Step:
        if self.steps:
            self.reasons.append(_difference(next(reversed(self.steps)), key))
            if len(self.steps) == MANY_TRACES:
                warnings.warn(
                    f"{getattr(self.function, '__name__', 'a function')} was recorded {MANY_TRACES + 1} times; the "
                    f"last time because {self.reasons[-1]}. Pass what varies as an array.",
                    stacklevel=3,
                )
        step = self.steps[key] = Step(self.function, arguments, named)
        return step

    def explain(self) -> str:
        """Why the function was recorded again, each time."""
        return "\n".join(self.reasons) or "recorded once" * bool(self.steps) or "not recorded yet"


class Step:
    """One recorded structure of a function."""

    def __init__(self, function: Callable[..., Any], arguments: tuple, named: dict[str, Any]) -> None:
        with engine.lock:
            engine.flush()
            self.placeholders: list[Node] = []
            result, assigned = self._traced(function, arguments, named)
            outputs: list[Node] = []
            self.result = _replaced(result, lambda value: _output(value, outputs))
            self.outputs = [(node.shape, node.dtype) for node in outputs]
            self._schedule(outputs, assigned)
        self.rings: dict[tuple[bool, ...], list[Slot]] = {}
        self.turn = 0

    # ---- recording
    def _placeholder(self, value: Any) -> Any:
        if not _is_array(value):
            return value
        self.placeholders.append(leaf(tuple(value.shape), _dtype(value)))
        return Tensor(self.placeholders[-1])

    def _traced(self, function: Callable[..., Any], arguments: tuple, named: dict[str, Any]) -> tuple[Any, list]:
        """Run `function` on placeholders: its result, and (tensor, old node, new node) for each assignment."""
        engine.trace = trace = Trace()
        try:
            stand_ins, named_stand_ins = _replaced((arguments, named), self._placeholder)
            result = function(*stand_ins, **named_stand_ins)
            assigned = [(handle, old, handle.node) for handle, old in trace.assigned()]
        finally:
            engine.trace = None
            for handle, old in trace.rebound.values():
                handle._node = old
        return result, assigned

    def _schedule(self, outputs: list[Node], assigned: list[tuple[Tensor, Node, Node]]) -> None:
        known = engine.values
        for handle, old, _ in assigned:
            if old not in known:
                raise VkgradError(f"jit: a tensor of shape {handle.shape} was assigned to before it had a value")
        targets = outputs + [new for _, _, new in assigned]
        graph = (*targets, *(old for _, old, _ in assigned))
        leaves = [n for n in engine.walk(graph, stop=engine.has_value) if n.op.family is Family.LEAF or n in known]
        devices = {id(known[n].device): known[n].device for n in leaves if n in known}
        if len(devices) > 1:
            raise VkgradError("jit: tensors on different devices meet in one function; make them on one device")
        self.device: Device = next(iter(devices.values()), None) or engine.device()
        _, order = engine.structure(targets, engine.has_value)
        position = {node: number for number, node in enumerate(order)}
        first = len(outputs)
        replaces = {first + number: position[old] for number, (_, old, _) in enumerate(assigned) if old in position}
        self.plan, self.executable, self.leaves = engine.plan_for(targets, self.device, replaces)
        unknown = [n for n in self.leaves if n not in known and n not in self.placeholders]
        if unknown:
            raise VkgradError("jit: the function uses a value made inside another recording")

        self.states: list[State] = []
        handles = {old: handle for handle, old, _ in assigned}
        for node in dict.fromkeys((*self.leaves, *(old for _, old, _ in assigned))):
            if node in self.placeholders:
                continue
            owner: Owner = ref(handles[node]) if node in handles else engine.owners.get(node, _nobody)
            self.states.append(State(owner, node, known[node], node in handles))
        self.places = {state.node: state for state in self.states}
        self.new_states = [(self.places[old], first + number) for number, (_, old, _) in enumerate(assigned)]
        for state in self.states:
            self._make_own(state)
        for state in self.states:  # its tensor, its State, `places`, the argument of getrefcount, and `leaves`
            state.references = 4 + self.leaves.count(state.node)
        self.arguments = [self.device.allocate(max(n.size * n.dtype.size_bytes, 4)) for n in self.placeholders]

    def _make_own(self, state: State) -> None:
        """Give a state memory that no other node shares, and upload it if it has not been."""
        value, device = state.value, self.device
        shared = sum(other is value for other in engine.values.values()) > 1
        if value.source is not None:
            recording = device.record(Job(None, uploads=[engine.upload_of(value)]))
            recording.write(0, value.source)
            value.source = None
            engine.submit(None, recording)
        if state.assigned and shared and value.size_bytes:
            own = engine.Value(device, device.allocate(value.size_bytes), value.size_bytes)
            engine.submit(None, device.record(Job(None, copies=[(own.memory, value.memory, value.size_bytes)])))
            state.value = engine.values[state.node] = own
        state.value.fixed = state.value.fixed or state.assigned

    def _slot(self, from_host: tuple[bool, ...]) -> Slot:
        """A new recording in which the arguments marked in `from_host` are uploaded."""
        plan, device = self.plan, self.device
        memory: dict[int, Memory] = {}
        made: dict[int, engine.Value] = {}
        argument = dict(zip(self.placeholders, self.arguments, strict=True))
        for number, buffer in enumerate(plan.buffers):
            if buffer.kind == "input":
                node = self.leaves[buffer.index]
                memory[number] = argument[node] if node in argument else self.places[node].value.memory
        for new, old in plan.in_place.items():
            memory[new] = memory[old]
        for number, buffer in enumerate(plan.buffers):
            if buffer.kind == "output" and number not in memory:
                made[number] = engine.Value(device, device.allocate(buffer.size_bytes), buffer.size_bytes)
                memory[number] = made[number].memory

        def where(target: int) -> tuple[Memory, int, int] | None:
            """The memory of a target, its bytes, and its buffer's number; None if it is empty."""
            number = plan.outputs[target]
            return None if number is None else (memory[number], plan.buffers[number].size_bytes, number)

        copies: list[tuple[Memory, Memory, int]] = []
        results: list[engine.Value] = []
        for target in range(len(self.outputs)):
            found = where(target)
            if found is None:
                results.append(engine.Value(device, None, 0))
                continue
            value = made.pop(found[2], None)
            if value is None:  # a second result with the same value, or one that is an argument, gets a copy
                value = engine.Value(device, device.allocate(found[1]), found[1])
                copies.append((value.memory, found[0], found[1]))
            results.append(value)
        for state, target in self.new_states:
            found = where(target)
            if found is not None and found[0] is not state.value.memory:
                copies.append((state.value.memory, found[0], found[1]))
        uploads = [
            (place, node.size * node.dtype.size_bytes)
            for place, node, host in zip(self.arguments, self.placeholders, from_host, strict=True)
            if host and node.size
        ]
        downloads = [(v.memory, v.size_bytes) for v in results if 0 < v.size_bytes <= SMALL_BYTES]
        return Slot(device.record(Job(self.executable, memory, uploads, copies, downloads)), results)

    # ---- replaying
    def run(self, inputs: Sequence[Any]) -> Any:
        with engine.lock:
            if engine.pending:
                engine.flush()
            for state in self.states:
                handle = state.handle()
                if handle is not None and handle._node is not state.node:
                    self._refresh(state, handle)
            from_host = tuple([_host_data(value) is not None for value in inputs])
            ring = self.rings.setdefault(from_host, [])
            if len(ring) < RING:
                slot = self._slot(from_host)
                ring.append(slot)
            else:
                slot = ring[self.turn % RING]
                self._free(slot)
            self.turn += 1
            number = 0
            for value, place, host in zip(inputs, self.arguments, from_host, strict=True):
                if host:
                    data = _host_data(value)
                    assert data is not None
                    if data.size:
                        slot.recording.write(number, data)
                        number += 1
                else:
                    self._copy_in(value, place)
            engine.submit(self.plan, slot.recording)
            count(flushes=1)
            for state in self.states:
                if state.assigned and sys.getrefcount(state.node) > state.references:
                    self._renew(state)
            return self._results(slot)

    def _free(self, slot: Slot) -> None:
        """Make a recording ready to run again: it must be over, and results still in use must leave its memory."""
        slot.recording.wait()
        for number, taken in enumerate(slot.taken):
            tensor, memory = taken(), slot.results[number]
            value = engine.values.get(tensor._node) if tensor is not None else None
            if value is not None and value.memory is memory.memory and value.size_bytes:
                own = self.device.allocate(value.size_bytes)
                engine.submit(None, self.device.record(Job(None, copies=[(own, value.memory, value.size_bytes)])))
                value.memory, value.landed = own, None

    def _copy_in(self, value: Tensor, place: Memory) -> None:
        node = value.node
        if node not in engine.values:
            engine.evaluate([node])
        found = engine.values[value.node]
        if found.size_bytes:
            engine.submit(None, self.device.record(Job(None, copies=[(place, found.memory, found.size_bytes)])))

    def _refresh(self, state: State, handle: Tensor) -> None:
        """The tensor was given another value outside: bring that into the memory that the recordings use."""
        if handle.node not in engine.values:
            engine.evaluate([handle.node])
        new = engine.values[handle.node]
        if new is not state.value and new.size_bytes:
            if not state.value.fixed:  # somebody else may still hold the old value in this memory: take another
                memory = self.device.allocate(new.size_bytes)
                state.value = engine.Value(self.device, memory, new.size_bytes, fixed=True)
                self.rings.clear()
            if new.source is not None:
                recording = self.device.record(Job(None, uploads=[(state.value.memory, new.size_bytes)]))
                recording.write(0, new.source)
            else:
                copy = (state.value.memory, new.memory, new.size_bytes)
                recording = self.device.record(Job(None, copies=[copy]))
            engine.submit(None, recording)
        self._renew(state, handle)

    def _renew(self, state: State, handle: Tensor | None = None) -> None:
        """Give a tensor that was updated in place a new leaf: whoever holds the old one meant the old value."""
        handle = state.handle() if handle is None else handle
        if handle is None:
            return
        fresh = leaf(state.node.shape, state.node.dtype)
        if engine.values.get(state.node) is state.value:
            del engine.values[state.node]
        engine.values[fresh] = state.value
        self.places.pop(state.node, None)
        self.leaves = [fresh if node is state.node else node for node in self.leaves]
        state.node = fresh
        self.places[fresh] = state
        handle.node = fresh
        engine.owners[fresh] = ref(handle)

    def _results(self, slot: Slot) -> Any:
        tensors: list[Tensor] = []
        landing = 0
        for (shape, dtype), memory in zip(self.outputs, slot.results, strict=True):
            node = leaf(shape, dtype)
            value = engine.Value(self.device, memory.memory, memory.size_bytes)
            if 0 < memory.size_bytes <= SMALL_BYTES:
                value.landed = (slot.recording, landing)
                landing += 1
            engine.values[node] = value
            tensors.append(Tensor(node))
        slot.taken = [ref(tensor) for tensor in tensors]
        return _replaced(self.result, lambda place: tensors[place.number] if isinstance(place, _Place) else place)


class _Place:
    """Where output `number` stands in a function's result."""

    def __init__(self, number: int) -> None:
        self.number = number


def _output(value: Any, outputs: list[Node]) -> Any:
    if not isinstance(value, Tensor):
        return value
    outputs.append(value.node)
    return _Place(len(outputs) - 1)


def _nobody() -> None:
    """The handle of a value whose tensor is gone."""
    return None


def _is_array(value: Any) -> bool:
    return isinstance(value, Tensor | np.ndarray)


def _dtype(value: Any) -> DType:
    return value.dtype if isinstance(value, Tensor) else dtype_of(value.dtype)


def _host_data(value: Any) -> np.ndarray | None:
    """The elements of an argument that are still on the host."""
    if isinstance(value, np.ndarray):
        return value
    found = engine.values.get(value._node)
    return found.source if found is not None else None


def _structure(value: Any, inputs: list[Any]) -> Any:
    """A hashable description of an argument, with its arrays collected in order.

    Modules and optimisers stand for themselves, by identity: what they hold is found by watching the function.
    """
    if isinstance(value, Tensor):
        inputs.append(value)
        return (Tensor, value.shape, value.dtype.name)
    if isinstance(value, np.ndarray):
        inputs.append(value)
        return (np.ndarray, value.shape, value.dtype.str)
    if isinstance(value, tuple | list):
        return (type(value), *[_structure(part, inputs) for part in value])
    if isinstance(value, dict):
        return (dict, *[(key, _structure(part, inputs)) for key, part in value.items()])
    if isinstance(value, bool | int | float | str | bytes | type(None)):
        return (type(value), value)
    training = getattr(value, "named_modules", None)
    modes = tuple(module.training for _, module in training()) if training else ()
    return (type(value), id(value), modes)


def _replaced(value: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[_replaced(part, function) for part in value])
    if isinstance(value, tuple | list):
        return type(value)([_replaced(part, function) for part in value])
    if isinstance(value, dict):
        return {key: _replaced(part, function) for key, part in value.items()}
    return function(value)


def _difference(old: Any, new: Any, path: str = "arguments") -> str:
    """Where two structures first differ, in words."""
    if isinstance(old, tuple) and isinstance(new, tuple) and len(old) == len(new):
        for number, (a, b) in enumerate(zip(old, new, strict=True)):
            if a != b:
                return _difference(a, b, f"{path}[{max(number - 1, 0)}]" if isinstance(a, tuple) else path)
    return f"{path} changed from {old!r} to {new!r}"
