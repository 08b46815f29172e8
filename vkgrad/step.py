"""One recorded structure of a function: how it is recorded, and how it is replayed.

A step is one sequence: upload of the arguments, kernels, copies, read-back of small results. A replay writes the
arguments into mapped memory and submits it. A few recordings of the same step take turns, so that the host runs ahead
of the device; each has memory of its own for its results, and tensors still in use move out before it is written again.

Tensors outside that the function reads or assigns to are *states*: always in the same memory, which belongs to one
tensor. Whoever else holds the leaf of a tensor that a step is about to update keeps the old value, in a copy. This
module must not know kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import ref

from vkgrad import engine
from vkgrad.arguments import COPIED, HOST, Mark, Marks, dtype_in, host_data, is_array, reader, replaced
from vkgrad.config import config
from vkgrad.errors import UnsupportedError, VkgradError
from vkgrad.holding import ALONE, UNUSED, Given, State, copied, holders, transfer, upload, users
from vkgrad.ir.node import Node
from vkgrad.ir.op import Family
from vkgrad.ir.weak import WeakMap
from vkgrad.ops.sources import leaf
from vkgrad.runtime.device import Device, Job, Memory, Recording, Use
from vkgrad.tensor import Tensor
from vkgrad.tracing import Trace

RING = 3  # recordings of one step that take turns
SMALL_BYTES = 1 << 16  # results up to this size travel back with the step itself
MET_OFTEN = 2  # the call from which a tensor on the device, given as an argument, is read where it is
MOST_BOUND = 8  # such tensors of one step: each combination has recordings of its own
MOST_BEFORES = 4  # recorded copies of arguments into one recording; each keeps the memory it reads
TINY_BYTES = 1 << 12  # results up to this size are written by the kernel itself to where the host reads


MISSED: Any = object()  # what `again` returns where it could not


@dataclass
class Slot:
    """One recording with the memory of its results and arguments, and the values handed out with that memory."""

    recording: Recording
    results: list[engine.Value]
    arguments: list[Memory]
    given: list[Given]
    landings: list[tuple[Recording, int] | None]  # of each result, where its bytes arrive on the host
    counts: dict[str, int]  # what one run of it counts as
    befores: dict[tuple[int, ...], Recording]  # copies of arguments into it, by the ids of the memory they come from


class Step:
    """One recorded structure of a function."""

    def __init__(self, function: Callable[..., Any], arguments: tuple, named: dict[str, Any]) -> None:
        trace, targets, assigned = self._traced(function, arguments, named)
        if self._separated(trace, assigned):  # now each tensor has a leaf of its own
            trace, targets, assigned = self._traced(function, arguments, named)
        self.assumptions = trace.assumptions
        self._schedule(trace, targets, assigned)
        self.rings: dict[Marks, list[Slot]] = {}
        self.bound: dict[int, ref[engine.Value]] = {}  # arguments that recordings read where they are, by id
        self.gone: list[int] = []  # ids of those that are no more
        self.met: WeakMap[engine.Value, int] = WeakMap()  # how often as an argument
        self.turn = 0
        self.seen = -1  # `engine.changes` when this step last ran
        is_plain = not named and all(node.size for node in self.placeholders)
        self.arrays_in = reader(arguments, self.bound) if is_plain else None
        # Whether a gradient that it leaves is one it also starts from, so that it must look again each time.
        self.adds_up = any(not isinstance(owner, ref) for state in self.states for owner in state.owners)

    # ---- recording
    def _traced(self, function: Callable[..., Any], arguments: tuple, named: dict[str, Any]) -> tuple:
        """Run `function` on placeholders: the trace, the nodes of its results, and (tensor, old node, new node) of each
        assignment."""
        self.placeholders: list[Node] = []
        stand_ins: list[Tensor] = []
        devices: dict[int, Device] = {}

        def stand_in(value: Any) -> Any:
            if not is_array(value):
                return value
            found = engine.values.get(value._node) if isinstance(value, Tensor) else None
            if found is not None and found.source is None:
                devices[id(found.device)] = found.device
            self.placeholders.append(leaf(tuple(value.shape), dtype_in(value)))
            stand_ins.append(Tensor(self.placeholders[-1]))
            return stand_ins[-1]

        with Trace().watching() as trace:
            given, named_given = replaced((arguments, named), stand_in)
            result = function(*given, **named_given)
            targets: list[Node] = []

            def place(value: Any) -> Any:
                if not isinstance(value, Tensor):
                    return value
                targets.append(value.node)
                return _Place(len(targets) - 1)

            self.result = replaced(result, place)
            self.result_count = len(targets)
            self.gradients = [(owner, place(gradient)) for owner, gradient in trace.gradients()]
            assigned = trace.assigned()
        if any(tensor._node is not node for tensor, node in zip(stand_ins, self.placeholders, strict=True)):
            raise VkgradError(
                "jit: the function assigns to a tensor that is its argument; return the new value, or let the function "
                "take the tensor from outside instead of as an argument"
            )
        self.argument_devices = devices
        return trace, targets, assigned

    def _separated(self, trace: Trace, assigned: list[tuple[Tensor, Node, Node]]) -> bool:
        """Give tensors that share one leaf, and of which one is assigned to, a leaf each; whether there were any."""
        shared = []
        for handle, old, _ in assigned:
            readers = [owner() for owner in trace.readers.get(old, {}).values()]
            others = [other for other, node, _ in assigned if node is old and other is not handle]
            if others or any(reader is not None and reader is not handle for reader in readers):
                shared.append(handle)
        for handle in shared:
            if handle._node in engine.values:
                value = copied(engine.values[handle._node])
                handle.node = leaf(handle.shape, handle.dtype)
                engine.values[handle.node] = value
        return bool(shared)

    def _schedule(self, trace: Trace, targets: list[Node], assigned: list[tuple[Tensor, Node, Node]]) -> None:
        known = engine.values
        for handle, old, _ in assigned:
            if old not in known:
                raise VkgradError(
                    f"jit: the function assigns to a tensor of shape {handle.shape} that has no value; read or vg.eval "
                    "it before the call"
                )
        self.outputs = [(node.shape, node.dtype) for node in targets]
        first = len(targets)
        targets = [*targets, *(new for _, _, new in assigned)]
        graph = engine.walk((*targets, *(old for _, old, _ in assigned)), stop=engine.has_value)
        devices = {id(known[n].device): known[n].device for n in graph if n in known} | self.argument_devices
        if len(devices) > 1:
            raise VkgradError(
                "jit: tensors on different devices meet in one function; make them on one, or write x.to_device(device)"
            )
        self.device: Device = next(iter(devices.values()), None) or engine.device()
        for node in graph:
            if node not in known and node.op.family is not Family.LEAF and self.device.refuses(node) is not None:
                raise UnsupportedError(
                    f"jit: {node.op.name} runs on the host (VKGRAD_HOST={config.host}), which cannot be recorded: "
                    f"{self.device.refuses(node)}; call the function without vg.jit"
                )
        _, order = engine.structure(targets, engine.has_value)
        position = {node: number for number, node in enumerate(order)}
        replaces = {first + number: position[old] for number, (_, old, _) in enumerate(assigned) if old in position}
        self.plan, self.executable, leaves = engine.plan_for(targets, self.device, replaces)
        if any(node not in known and node not in self.placeholders for node in leaves):
            raise VkgradError(
                "jit: the function uses a tensor that was made inside another recording, or whose memory has been "
                "updated in place since; return such tensors from the function that makes them"
            )

        owners = {node: list(found.values()) for node, found in trace.readers.items()}
        changed = {old: trace.owner_of(handle) for handle, old, _ in assigned}
        states: dict[Node, State] = {}
        for node in dict.fromkeys((*leaves, *changed)):
            if node not in self.placeholders:
                own = (changed[node],) if node in changed else tuple(owners.get(node, ()))
                states[node] = State(own, ref(node), known[node], node in changed)
                self._settle(states[node], node)
        self.states = list(states.values())
        self.inputs = [states.get(node) or self.placeholders.index(node) for node in leaves]
        self.new_states = [(states[old], first + number) for number, (_, old, _) in enumerate(assigned)]

    def _settle(self, state: State, node: Node) -> None:
        """Bring a state's value to the device, into memory that stays; one that is assigned to gets its own."""
        value = state.value
        upload(value)
        if value.lent:
            value.memory, value.landed, value.lent = copied(value).memory, None, False
        if state.assigned:
            handle = state.owners[0]()
            if value.fixed:
                is_own = value.owner is not None and value.owner() is handle
            else:
                is_own = sum(other is value for other in engine.values.values()) == 1
            if not is_own:
                value = state.value = engine.values[node] = copied(value)
            value.fixed, value.owner = True, ref(handle)

    def _slot(self, marks: Marks) -> Slot:
        """A new recording for arguments that are where `marks` says."""
        plan, device = self.plan, self.device

        def place(node: Node, mark: Mark) -> Memory:
            found = self.bound[mark]() if mark in self.bound else None
            if found is not None:
                return found.memory
            return device.allocate(max(node.size * node.dtype.size_bytes, 4), "argument" if mark is HOST else "device")

        arguments = [place(node, mark) for node, mark in zip(self.placeholders, marks, strict=True)]
        hosted = [mark is HOST and node.size > 0 for node, mark in zip(self.placeholders, marks, strict=True)]
        memory: dict[int, Memory] = {}
        made: dict[int, engine.Value] = {}
        for number, buffer in enumerate(plan.buffers):
            if buffer.kind == "input":
                source = self.inputs[buffer.index]
                memory[number] = source.value.memory if isinstance(source, State) else arguments[source]
        for new, old in plan.in_place.items():
            memory[new] = memory[old]
        for number, buffer in enumerate(plan.buffers):
            if buffer.kind == "output" and number not in memory:
                size = buffer.size_bytes
                use: Use = "result" if number in plan.outputs[: self.result_count] and size <= TINY_BYTES else "device"
                made[number] = engine.Value(device, device.allocate(size, use), size)
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
        moves = [(state.value.memory, *found[:2]) for state, target in self.new_states if (found := where(target))]
        moves = [move for move in moves if move[0] is not move[1]]
        overwritten = {id(destination) for destination, _, _ in moves}
        for number, (destination, source, size) in enumerate(moves):
            if id(source) in overwritten:  # states that change places: all are read before any is written
                aside = device.allocate(size)
                copies.append((aside, source, size))
                moves[number] = (destination, aside, size)
        uploads = [
            (place, node.size * node.dtype.size_bytes)
            for place, node, host in zip(arguments, self.placeholders, hosted, strict=True)
            if host
        ]
        downloads = [(v.memory, v.size_bytes) for v in results[: self.result_count] if _is_small(v)]
        arrays = [(n.dtype.memory, n.shape) for n, host in zip(self.placeholders, hosted, strict=True) if host]
        recording = device.record(Job(self.executable, memory, uploads, [*copies, *moves], downloads, arrays))
        landings: list[tuple[Recording, int] | None] = [None] * len(results)
        small = [number for number in range(self.result_count) if _is_small(results[number])]
        for landing, number in enumerate(small):
            landings[number] = (recording, landing)
        uploaded = sum(
            n.size * n.dtype.memory.itemsize for n, host in zip(self.placeholders, hosted, strict=True) if host
        )
        counts = engine.counts_of(plan, recording) | {"flushes": 1, "bytes_uploaded": uploaded}
        slot = Slot(recording, results, arguments, [], landings, counts, {})
        slot.given = [self._new_result(slot, number) for number in range(len(results))]
        return slot

    def _new_result(self, slot: Slot, number: int) -> Given:
        shape, dtype = self.outputs[number]
        result = slot.results[number]
        given = Given(leaf(shape, dtype), engine.Value(self.device, result.memory, result.size_bytes, lent=True))
        engine.values[given.node] = given.value
        return given

    # ---- replaying
    def fits(self) -> bool:
        """Whether what the function relied on when it was recorded still holds."""
        if self.seen == engine.changes:
            return True
        return all(a.holds() for a in self.assumptions) and all(state.fits() for state in self.states)

    def is_gone(self) -> bool:
        """Whether a tensor that the function used no longer exists, so that this step never fits again."""
        return any(state.is_gone() for state in self.states)

    def misfit(self) -> str:
        """Why it does not fit, in words."""
        failed = [str(assumption) for assumption in self.assumptions if not assumption.holds()]
        return failed[0] if failed else "a tensor that the function took from outside was replaced by another one"

    def run(self, inputs: Sequence[Any]) -> Any:
        """Replay. The caller holds the engine's lock, has flushed, and has seen that this step fits."""
        if self.seen != engine.changes:
            for state in self.states:
                if state.owners and state.is_behind(state.owners[0]()):
                    self._refresh(state, state.owners[0]())
                if state.assigned:
                    self._preserve(state)
        hosted = [host_data(value) for value in inputs]
        if self.gone:
            self._forget_gone()
        marks = tuple([self._mark(v) if data is None else HOST for v, data in zip(inputs, hosted, strict=True)])
        ring = self.rings.setdefault(marks, [])
        if len(ring) < RING:
            slot = self._slot(marks)
            ring.append(slot)
        else:
            slot = ring[self.turn % RING]
            self._free(slot)
        self.turn += 1
        number, copies = 0, list[tuple[Memory, Memory, int]]()
        for value, data, mark, place in zip(inputs, hosted, marks, slot.arguments, strict=True):
            if mark is COPIED:
                copies += self._copy_in(value, place)
            elif data is not None and data.size:
                slot.recording.write(number, data)
                number += 1
        before = self._before(slot, copies) if copies else None
        engine.submit(self.plan, slot.recording, flushes=1, before=before)
        for state in self.states:
            state.value.landed = None
        result = self._results(slot)
        # Gradients that it leaves are something it relied on.
        looks_again = bool(self.gradients) and (self.adds_up or not all(a.holds() for a in self.assumptions))
        self.seen = -1 if looks_again else engine.changes
        return result

    def again(self, arguments: tuple) -> Any:
        """Replay on arrays from the host, where nothing at all has happened since the last run: the steady state.

        Returns `MISSED`, with nothing done, where anything is not as it was then. The caller holds the engine's lock.
        """
        if self.seen != engine.changes or self.arrays_in is None or self.gone or engine.on_flush:
            return MISSED
        found = self.arrays_in(arguments)
        if found is None:
            return MISSED
        marks, arrays, on_device = found
        ring = self.rings.get(marks, ())
        if len(ring) < RING:
            return MISSED
        slot = ring[self.turn % RING]
        for given in slot.given:
            if users(given) != UNUSED:
                return MISSED
        before = None
        if on_device:
            before = slot.befores.get(tuple([id(value.memory) for value in on_device]))
            if before is None:
                return MISSED
        if not slot.recording.run(arrays, before):
            return MISSED
        self.turn += 1
        engine.submitted(self.plan, slot.recording, slot.counts)
        for state in self.states:
            state.value.landed = None
        result = self._results(slot)
        self.seen = engine.changes
        return result

    def _mark(self, argument: Tensor) -> Mark:
        """How an argument on the device gets to the recording. One that comes again and again is read where it is."""
        found = engine.values.get(argument._node)
        if found is None or found.fixed or found.lent or not found.size_bytes or found.device is not self.device:
            return COPIED
        number = id(found)
        if number not in self.bound:
            self.met[found] = self.met.get(found, 0) + 1
            if self.met[found] < MET_OFTEN or len(self.bound) == MOST_BOUND:
                return COPIED
            gone = self.gone
            self.bound[number] = ref(found, lambda _: gone.append(number))
        return number

    def _forget_gone(self) -> None:
        while self.gone:
            number = self.gone.pop()
            self.bound.pop(number, None)
            self.rings = {marks: ring for marks, ring in self.rings.items() if number not in marks}

    def _free(self, slot: Slot) -> None:
        """Make a recording ready to run again: it must be over, and results still in use must leave its memory."""
        slot.recording.wait()
        for number, given in enumerate(slot.given):
            used = users(given) != UNUSED  # before `value` is one more
            value, memory = given.value, slot.results[number].memory
            if used or value.memory is not memory or not value.lent:
                if value.lent and value.memory is memory and value.size_bytes:
                    value.memory, value.landed, value.lent = copied(value).memory, None, False
                slot.given[number] = self._new_result(slot, number)

    def _before(self, slot: Slot, copies: list[tuple[Memory, Memory, int]]) -> Recording:
        """The recording of these copies. Results that come back as arguments lie in the same memory every few calls."""
        key = tuple([id(source) for _, source, _ in copies])
        found = slot.befores.get(key)
        if found is None:
            if len(slot.befores) == MOST_BEFORES:
                slot.befores.clear()
            found = slot.befores[key] = self.device.record(Job(None, copies=copies))  # keeps the memory, so ids stay
        return found

    def _copy_in(self, value: Tensor, place: Memory) -> list[tuple[Memory, Memory, int]]:
        """The copy that brings an argument which is on the device to where the recording reads it."""
        node = value.node
        if node not in engine.values:
            engine.evaluate([node])
        found = engine.values[value.node]
        if found.device is not self.device:
            raise VkgradError(f"jit: the function was recorded on {self.device.name}, an argument is on another device")
        return [(place, found.memory, found.size_bytes)] if found.size_bytes else []

    def _refresh(self, state: State, handle: Tensor) -> None:
        """The tensor was given another value outside: bring that into the memory that the recordings use."""
        if handle._node not in engine.values:
            engine.evaluate([handle.node])
        new, mine = engine.values[handle._node], state.value
        if new is not mine and new.size_bytes:
            if new.fixed and new.owner is not None and new.owner() is handle and len(state.owners) == 1:
                state.value, state.private = new, False  # another step's memory of this very tensor
                self.rings.clear()
            elif state.assigned:
                old = state.node()
                if old is not None and engine.values.get(old) is mine:  # somebody still holds it
                    engine.values[old] = copied(mine)
                transfer(new, mine)
                mine.owner = ref(handle)
                handle.node = leaf(handle.shape, handle.dtype)
                engine.values[handle._node] = mine
            else:
                if not state.private:
                    state.value, state.private = copied(new), True
                    self.rings.clear()
                else:
                    transfer(new, mine)
        state.node = ref(handle._node)

    def _preserve(self, state: State) -> None:
        """Whoever else holds the leaf of a tensor that is about to be updated in place meant the value it has now."""
        handle = state.owners[0]()
        if holders(handle) > ALONE and state.value.size_bytes:
            engine.values[handle._node] = copied(state.value)
            handle.node = leaf(handle.shape, handle.dtype)
            engine.values[handle._node] = state.value
            state.node = ref(handle._node)

    def _results(self, slot: Slot) -> Any:
        tensors = []
        for (node, value), landing in zip(slot.given, slot.landings, strict=True):
            value.landed = landing
            tensors.append(_tensor(node))
        for owner, gradient in self.gradients:
            handle = owner()
            if handle is not None:
                handle.grad = tensors[gradient.number] if isinstance(gradient, _Place) else gradient
        if type(self.result) is _Place:  # one tensor, as a rule the loss
            return tensors[self.result.number]
        if self.result is None:
            return None
        return replaced(self.result, lambda place: tensors[place.number] if isinstance(place, _Place) else place)


def _tensor(node: Node) -> Tensor:
    """A tensor of a leaf that has a value, without telling the engine, which has nothing to do with it."""
    handle = Tensor.__new__(Tensor)
    handle._node, handle._requires_grad, handle._grad, handle.keeps_history = node, False, None, False
    return handle


class _Place:
    """Where output `number` stands in a function's result."""

    def __init__(self, number: int) -> None:
        self.number = number


def _is_small(value: engine.Value) -> bool:
    return 0 < value.size_bytes <= SMALL_BYTES
