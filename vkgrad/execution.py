"""When things run and where: `flush`, `plan`, the choice of device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from vkgrad import engine, tree
from vkgrad.engine import default_device, flush, host_policy, set_device, synchronize
from vkgrad.errors import NoDriverError
from vkgrad.ir.node import Node, walk
from vkgrad.ir.op import OPS, Family
from vkgrad.schedule.explain import KernelReport, explain, report
from vkgrad.schedule.plan import Plan
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
    return [leaf.value.node for leaf in tree.leaves(values) if isinstance(leaf.value, Tensor)]


@dataclass(frozen=True)
class PlanReport:
    """What a flush would do: print it, or look at its parts.

    kernels     one `KernelReport` per dispatch, in order
    placement   each scheduled node with where it goes: "device", "host", "view" (folded into a reader), or "leaf"
    plan        the plan itself
    """

    plan: Plan
    kernels: tuple[KernelReport, ...]
    placement: tuple[tuple[str, str], ...]
    text: str

    def explain(self) -> str:
        return self.text

    __str__ = explain
    __repr__ = explain


def plan(*values: Any) -> PlanReport:
    """The schedule of these tensors, or of everything pending, without running it."""
    with engine.lock:
        targets = _nodes(values) if values else [handle.node for handle in engine.waiting()]
        targets = [node for node in dict.fromkeys(targets) if not engine.has_value(node)]
        device = engine.device()
        built, executable, _ = engine.plan_for(targets, device)
        placement = []
        for node in walk(targets, stop=engine.has_value):
            if engine.has_value(node) or node.op.family is Family.LEAF:
                where = "leaf"
            elif node.op.family is Family.VIEW:
                where = "view"
            else:
                where = "host" if device.refuses(node) else "device"
            placement.append((repr(node), where))
        rows = dict(zip(map(id, built.kernels), getattr(executable, "shaders", ()), strict=False))
        row = (lambda kernel: rows[id(kernel)].row) if rows else None
        return PlanReport(built, tuple(report(built, row)), tuple(placement), explain(built, row))


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
