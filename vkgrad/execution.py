"""When things run and where: `flush`, `plan`, the choice of device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from vkgrad import engine, tree
from vkgrad.engine import default_device, flush, host_policy, set_device, synchronize
from vkgrad.errors import NoDriverError
from vkgrad.ir.node import Node, rebuilt, walk
from vkgrad.ir.op import OPS, Family
from vkgrad.ops.sources import leaf
from vkgrad.schedule.explain import KernelReport, explain, report
from vkgrad.schedule.plan import Plan
from vkgrad.showing import html_table
from vkgrad.tensor import Tensor

__all__ = [
    "PlanReport",
    "default_device",
    "devices",
    "flush",
    "host_policy",
    "host_rules",
    "plan",
    "set_device",
    "synchronize",
]


def _nodes(values: tuple[Any, ...]) -> list[Node]:
    return [found.value.node for found in tree.leaves(values) if isinstance(found.value, Tensor)]


@dataclass(frozen=True)
class PlanReport:
    """What a flush would do: print it, or look at its parts.

    kernels     one `KernelReport` per dispatch, in order
    placement   each scheduled node with where it goes: "device", "host", "view" (folded into a reader), or "leaf"
    hosted      for each kernel, what it reads that the host computes or has computed
    plan        the plan itself; where the host takes part there are several, and this is the last
    """

    plan: Plan
    kernels: tuple[KernelReport, ...]
    placement: tuple[tuple[str, str], ...]
    hosted: tuple[tuple[str, ...], ...]
    text: str

    def explain(self) -> str:
        return self.text

    __str__ = explain
    __repr__ = explain

    def _repr_html_(self) -> str:
        """What a notebook shows: a row for each kernel."""
        rows = [
            (
                number,
                kernel.level,
                kernel.row or kernel.kind,
                "×".join(map(str, kernel.parallel)) or "1",
                "×".join(map(str, kernel.reduced)),
                kernel.bytes_read + kernel.bytes_written,
                kernel.flops,
                " ".join(kernel.ops),
            )
            for number, kernel in enumerate(self.kernels)
        ]
        heads = ("#", "level", "kernel", "places", "over", "bytes", "FLOPs", "operations")
        return html_table(self.text.partition("\n")[0], rows, heads)


def plan(*values: Any) -> PlanReport:
    """The schedule of these tensors, or of everything pending, without running it."""
    with engine.lock:
        targets = _nodes(values) if values else [handle.node for handle in engine.waiting()]
        targets = [node for node in dict.fromkeys(targets) if not engine.has_value(node)]
        device = engine.device()
        placement = {node: _place(node, device) for node in walk(targets, stop=engine.has_value)}
        stages = _Stages(placement, device)
        stages.run(targets)
        lines = stages.lines + [
            f"  on the host: {node!r}: {device.refuses(node)}" for node, where in placement.items() if where == "host"
        ]
        lines += [
            f"  #{number} reads {name} from the host" for number, names in enumerate(stages.hosted) for name in names
        ]
        places = tuple((repr(node), where) for node, where in placement.items())
        return PlanReport(stages.plan, tuple(stages.kernels), places, tuple(stages.hosted), "\n".join(lines))


def _place(node: Node, device: engine.Device) -> str:
    if engine.has_value(node) or node.op.family is Family.LEAF:
        return "leaf"
    if device.refuses(node):
        return "host"
    return "view" if node.op.family is Family.VIEW else "device"


class _Stages:
    """The plans of one flush, in order: one for each thing that the host reads, and one for the targets."""

    def __init__(self, placement: dict[Node, str], device: engine.Device) -> None:
        self.placement, self.device = placement, device
        self.known: dict[Node, Node] = {}  # what an earlier stage gives, and the leaf that stands for it
        self.made_by: dict[Node, str] = {}  # what the leaves are that the host gives
        self.kernels: list[KernelReport] = []
        self.hosted: list[tuple[str, ...]] = []
        self.lines: list[str] = []

    def run(self, targets: list[Node]) -> None:
        for node, where in self.placement.items():
            if where != "host":
                continue
            for source in node.inputs:
                if self.placement[source] != "leaf" and source not in self.known:
                    self._add([source])
                    self.known[source] = leaf(source.shape, source.dtype)
            self.known[node] = leaf(node.shape, node.dtype)
            self.made_by[self.known[node]] = repr(node)
        self._add([node for node in targets if node not in self.known])

    def _add(self, targets: list[Node]) -> None:
        self.plan, executable, leaves = engine.plan_for(self._standing(targets), self.device)
        rows = dict(zip(map(id, self.plan.kernels), getattr(executable, "shaders", ()), strict=False))
        row = (lambda kernel: rows[id(kernel)].row) if rows else None
        names = [
            self.made_by.get(node) or (engine.values[node].hosted if engine.has_value(node) else "") for node in leaves
        ]
        for kernel in report(self.plan, row):
            buffers = [self.plan.buffers[number] for number in kernel.reads]
            read = [names[buffer.index] for buffer in buffers if buffer.kind == "input"]
            self.kernels.append(kernel)
            self.hosted.append(tuple(name for name in read if name))
        self.lines.append(explain(self.plan, row))

    def _standing(self, targets: list[Node]) -> list[Node]:
        """`targets` where what is known is a leaf."""
        if not self.known:
            return targets
        new: dict[Node, Node] = {}
        for node in walk(targets, stop=lambda node: node in self.known or engine.has_value(node)):
            if node in self.known or self.placement[node] == "leaf":
                new[node] = self.known.get(node, node)
            else:
                new[node] = rebuilt(node, tuple(new[source] for source in node.inputs))
        return [new[node] for node in targets]


class HostedOp(NamedTuple):
    """One entry of `host_rules()`."""

    op: str
    condition: str
    reason: str


def host_rules() -> list[HostedOp]:
    """Each operation that a Vulkan device leaves to the host, when, and why.

    By default it is refused when the graph is built; with the host policy "allow" or "warn" it runs there, counted.
    """
    return [
        HostedOp(op.name, op.host_rule.condition, op.host_rule.reason)
        for op in OPS.values()
        if op.host_rule is not None
    ]


def devices() -> list[str]:
    """The names of the devices here: every Vulkan device, then "cpu"."""
    from vkgrad.runtime import _native

    try:
        found = [str(entry["name"]) for entry in _native.list_devices()]
    except NoDriverError:
        found = []
    return [*found, "cpu"]
