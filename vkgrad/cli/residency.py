"""`python -m vkgrad residency`: which ops stay on the device, for each element type and direction of differentiation.

Every case that a record names is run on the device, forward and through both modes of differentiation, with the host
allowed; whatever the census then finds on the host is not resident. The answer is compared with `residency.json`, the
register: what leaves the device is a drift, and so is what reaches it without being entered.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from vkgrad import autodiff, engine, ops  # noqa: F401  fills OPS
from vkgrad.counters import counting
from vkgrad.errors import DTypeError
from vkgrad.execution import host_rules
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import ANY, DType, dtype_of
from vkgrad.ir.node import Node, walk
from vkgrad.ir.op import NOT_DIFFERENTIABLE, OPS, ZERO, Family, Op
from vkgrad.ops.narrow import narrowed
from vkgrad.ops.samples import Case

REGISTER = Path(__file__).with_name("residency.json")
DIRECTIONS = ("forward", "reverse", "jvp")

Place = tuple[str, str, str]  # op, element type, direction


# ---- what the records say there is
def subjects() -> list[Op]:
    """The ops that compute something."""
    return [op for op in OPS.values() if op.family is not Family.LEAF]


def cases_of(op: Op, dtype: DType) -> list[Case]:
    """The cases of `op` that `dtype` can have: as its operands' type or, where it has none, as its result's."""
    return [case for case in op.samples.cases if _takes(op, case, dtype)]


def _takes(op: Op, case: Case, dtype: DType) -> bool:
    try:
        result = op.dtype(op.samples.dtypes(op.arity, dtype), **case.attributes)
    except DTypeError:
        return False
    return bool(op.arity) or result is dtype


def directions_of(op: Op, dtype: DType) -> tuple[str, ...]:
    differentiable = op.arity and dtype.kind == "f" and op.grad is not NOT_DIFFERENTIABLE and op.grad is not ZERO
    return DIRECTIONS if differentiable else DIRECTIONS[:1]


def places() -> Iterator[Place]:
    """Every op × type × direction that the records allow."""
    for op in subjects():
        for dtype in ANY:
            if cases_of(op, dtype):
                yield from ((op.name, dtype.name, direction) for direction in directions_of(op, dtype))


def drawn(
    op: Op,
    case: Case,
    dtype: DType,
    *,
    seed: int = 1,
    special: bool = False,
    ties: bool = False,
    repeated: bool = False,
) -> list[np.ndarray]:
    """Operands of one case.

    special   about a third of the values are the record's edges: NaN, infinities, zeros
    ties      few different values, so that many are equal
    repeated  the first axis repeats its first element
    """
    dtypes = op.samples.dtypes(op.arity, dtype)
    arrays = []
    for operand, (shape, own) in enumerate(zip(case.shapes, dtypes, strict=True)):
        array = np.asarray(op.samples.draw(shape, own.numpy, seed, operand, special=special))
        if ties and own.kind == "f":
            array = np.round(array)
        if repeated and array.ndim and array.size:
            array = np.array(np.broadcast_to(array[:1], shape))
        arrays.append(stored(array, own))
    if op.samples.made is not None:
        arrays = list(op.samples.made(*arrays, **case.attributes))
    return [np.asarray(stored(array, own)) for array, own in zip(arrays, dtypes, strict=True)]


def stored(array: np.ndarray, dtype: DType) -> np.ndarray:
    """The values that `dtype` holds, in the NumPy type that users see."""
    return narrowed(array, dtype).astype(dtype.numpy) if dtype.narrow else array.astype(dtype.numpy, copy=False)


# ---- graphs
def reverse(output: Node, operands: Sequence[Node], cotangent: Node) -> list[Node]:
    """The gradients of `output`, in the direction `cotangent`, for the operands that have one."""
    floats = [node for node in operands if node.dtype.kind == "f"]
    return [node for node in autodiff.vjp([output], floats, [cotangent]) if node is not None]


def forward(output: Node, operands: Sequence[Node], cotangent: Node, tangents: Sequence[Node]) -> list[Node]:
    """The derivative of `output` in the direction of a tangent for each operand that is a float.

    It is the gradient of the gradient with respect to `cotangent`, whose value does not matter.
    """
    floats = [node for node in operands if node.dtype.kind == "f"]
    gradients = autodiff.vjp([output], floats, [cotangent])
    pairs = [(g, t) for g, t in zip(gradients, tangents, strict=True) if g is not None]
    found = autodiff.vjp([g for g, _ in pairs], [cotangent], [t for _, t in pairs])
    return [node for node in found if node is not None]


def graphs(op: Op, case: Case, dtype: DType) -> dict[str, list[Node]]:
    """What each direction computes, for one case with leaves on the default device."""
    operands = _put(op, case, dtype, 1)
    output = b.build(op, *operands, **case.attributes)
    found = {"forward": [output]}
    if len(directions_of(op, dtype)) > 1 and output.dtype.kind == "f":
        cotangent = engine.put(_ones(output), output.dtype)
        tangents = [node for node in _put(op, case, dtype, 2) if node.dtype.kind == "f"]
        found["reverse"] = reverse(output, operands, cotangent)
        found["jvp"] = forward(output, operands, cotangent, tangents)
    return found


def _put(op: Op, case: Case, dtype: DType, seed: int) -> list[Node]:
    dtypes = op.samples.dtypes(op.arity, dtype)
    return [engine.put(x, own) for x, own in zip(drawn(op, case, dtype, seed=seed), dtypes, strict=True)]


def _ones(node: Node) -> np.ndarray:
    return np.ones(node.shape, node.dtype.numpy)


# ---- what is found
def hosted(op: Op, dtype: DType) -> set[str]:
    """The directions in which some case of `op` computes on the host. Everything is run; the census must agree."""
    device = engine.device()
    found: dict[str, list[Node]] = {}
    on_host: set[str] = set()
    with engine.host_policy("allow"):
        for case in cases_here(op, dtype):
            for direction, outputs in graphs(op, case, dtype).items():
                found.setdefault(direction, []).extend(outputs)
        for direction, outputs in found.items():
            if any(device.refuses(node) for node in walk(outputs) if node.op.family is not Family.LEAF):
                on_host.add(direction)
        with counting() as census:
            engine.evaluate([node for outputs in found.values() for node in outputs])
    assert bool(census.host_nodes) == bool(on_host), f"{op.name}: the census counts {census.host_nodes} nodes"
    return on_host


def resident(among: Sequence[Op]) -> set[Place]:
    """Every place of these ops that stays on the default device, where that has the element type."""
    return {
        (op.name, dtype.name, direction)
        for op in among
        for dtype in offered()
        if cases_of(op, dtype)
        for direction in set(directions_of(op, dtype)) - hosted(op, dtype)
    }


def offered() -> list[DType]:
    """The element types that the default device computes with."""
    device = engine.device()
    return [dtype for dtype in ANY if device.lacks(dtype) is None]


def cases_here(op: Op, dtype: DType) -> list[Case]:
    """Those whose result, too, is of a type that the default device computes with: a cast's may not be."""
    device, dtypes = engine.device(), op.samples.dtypes(op.arity, dtype)
    return [case for case in cases_of(op, dtype) if device.lacks(op.dtype(dtypes, **case.attributes)) is None]


# ---- the register
def registered(path: Path | None = None) -> set[Place]:
    entries: Mapping[str, Mapping[str, Sequence[str]]] = json.loads((path or REGISTER).read_text(encoding="utf-8"))
    return {
        (op, dtype, direction)
        for op, directions in entries.items()
        for direction, dtypes in directions.items()
        for dtype in dtypes
    }


def write(found: set[Place], path: Path) -> None:
    lines = []
    for op in sorted({name for name, _, _ in found}):
        directions = {
            direction: [dtype.name for dtype in ANY if (op, dtype.name, direction) in found] for direction in DIRECTIONS
        }
        lines.append(f'  "{op}": {json.dumps({key: value for key, value in directions.items() if value})}')
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def drift(found: set[Place], entered: set[Place]) -> list[str]:
    """A line for each place that only one of the two has."""
    return [f"left the device: {' '.join(place)}" for place in sorted(entered - found)] + [
        f"resident, but not in the register: {' '.join(place)}" for place in sorted(found - entered)
    ]


def run(arguments: argparse.Namespace) -> int:
    device = engine.device()
    if device.kind == "cpu":
        print("residency is about a Vulkan device; on the cpu device everything is on the host by choice")
        return 1
    among = [op for op in subjects() if not arguments.op or op.name in arguments.op]
    names, types = {op.name for op in among}, {dtype.name for dtype in offered()}
    found = resident(among)
    if arguments.write:
        write(found | {place for place in registered() if place[0] not in names and place[0] in OPS}, REGISTER)
    concerned = [place for place in places() if place[0] in names]
    here = [place for place in concerned if place[1] in types]
    entered = {place for place in registered() if (place[0] in names or not arguments.op) and place[1] in types}
    print(f"{len(found)} of {len(here)} op x dtype x direction resident on {device.name}")
    for missing in sorted({place[1] for place in concerned} - types):
        print(f"  not looked at: {missing} ({device.lacks(dtype_of(missing))})")
    for rule in host_rules():
        print(f"  host rule: {rule.op} with {rule.condition}: {rule.reason}")
    lines = drift(found, entered)
    print("\n".join(lines) if lines else "as the register says")
    return 1 if lines else 0


def add_to(commands: argparse._SubParsersAction) -> None:
    one = commands.add_parser(
        "residency", help="run every op on the device and compare where it ran with the register; 1 if they differ"
    )
    one.add_argument("op", nargs="*", help="only these ops")
    one.add_argument("--write", action="store_true", help="make what is found the register")
    one.set_defaults(run=run)
