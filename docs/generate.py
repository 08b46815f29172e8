"""Write the parts of the documentation that are derived from the package: `python docs/generate.py`.

Each part stands between `<!-- begin NAME -->` and `<!-- end NAME -->` in a page of this folder. A test compares the
pages with what would be written, so they cannot go stale.
"""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from vkgrad.cli import residency
from vkgrad.config import SWITCHES
from vkgrad.ir.dtypes import ANY, FLOATING, INTEGRAL, bool_
from vkgrad.ir.op import NOT_DIFFERENTIABLE, OPS, ZERO, Family, Op

DOCS = Path(__file__).parent


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def switches() -> str:
    """Every environment variable, from the one place that parses them."""
    rows = []
    for name, switch in SWITCHES.items():
        default = f"`{switch.shown_default}`" if switch.shown_default else "empty"
        rows.append((f"`{switch.variable}`", f"`{name}`", default, switch.allowed, switch.meaning))
    return table(("variable", "in code", "default", "takes", "meaning"), rows)


def gradient_of(op: Op) -> str:
    if op.grad is ZERO:
        return "zero"
    return "none" if op.grad is NOT_DIFFERENTIABLE else "yes"


TYPES = {"floats": FLOATING, "integers": INTEGRAL, "bool": (bool_,)}


def types_of(op: Op) -> str:
    """The element types that an op is looked at with: a group by its name if it takes all of it."""
    taken = [dtype for dtype in ANY if residency.cases_of(op, dtype)]
    words = []
    for name, group in TYPES.items():
        own = [dtype for dtype in group if dtype in taken]
        words += [name] if len(own) == len(group) else [dtype.name for dtype in own]
    return ", ".join(words)


def placement_of(op: Op, entered: set[residency.Place]) -> str:
    """Where it runs, from the register of what stays on the device and from the op's host rule."""
    if op.family is Family.LEAF:
        return "memory"
    places = [place for place in residency.places() if place[0] == op.name]
    missing = [" ".join(place[1:]) for place in places if place not in entered]
    where = "never runs" if op.family is Family.VIEW else "device"
    hosted = [f"not {', '.join(missing)}"] if missing else []
    hosted += [f"host with {op.host_rule.condition}"] if op.host_rule else []
    return "; ".join([where, *hosted])


def family(of: Family) -> str:
    """The primitives of one family: types, placement, gradient, and what a note says of kinks, ties and edges."""
    entered = residency.registered()
    rows = []
    for op in sorted((op for op in OPS.values() if op.family is of), key=lambda op: op.name):
        note = " ".join(op.doc.split())
        cells = (str(op.arity), types_of(op), placement_of(op, entered), gradient_of(op), note)
        rows.append((f"`{op.name}`", *cells))
    return table(("primitive", "operands", "types", "runs on", "gradient", "note"), rows)


def operations() -> str:
    """The families, and which primitives each has."""
    rows = []
    for of in Family:
        names = sorted(op.name for op in OPS.values() if op.family is of)
        page = "source" if of is Family.LEAF else of.value
        rows.append((f"[{of.value}](ops/{page}.md)", str(len(names)), ", ".join(f"`{name}`" for name in names)))
    return table(("family", "", "primitives"), rows)


def limitations() -> str:
    """What the records say cannot be done."""
    flat = [op.name for op in OPS.values() if op.grad is ZERO]
    none = [op.name for op in OPS.values() if op.grad is NOT_DIFFERENTIABLE]

    def listed(names: list[str]) -> str:
        return ", ".join(f"`{name}`" for name in sorted(names))

    return "\n\n".join(
        [
            f"**Gradient zero wherever it exists** ({len(flat)}): {listed(flat)}.",
            f"**No gradient; asking for one is an error** ({len(none)}): {listed(none)}.",
            *hosts(),
            f"**Resident**: {len(residency.registered())} of {len(list(residency.places()))} primitives x types x "
            "directions (forward, reverse, jvp) run on the device, by the register that `python -m vkgrad residency` "
            "compares with what it finds.",
        ]
    )


def hosts() -> list[str]:
    return [
        f"**Left to the host**, if the host policy lets it: `{op.name}` with {op.host_rule.condition}, since "
        f"{op.host_rule.reason}."
        for op in OPS.values()
        if op.host_rule is not None
    ]


DRIVERS = {"lavapipe": "lavapipe", "swiftshader": "SwiftShader", "nvidia-h200": "NVIDIA H200", "cpu": "`cpu`"}


def ulps() -> str:
    """The largest error of each function on each device, from `bench_results/ulps`."""
    paths = {name: DOCS.parent / "bench_results" / "ulps" / f"{name}.json" for name in DRIVERS}
    found = {name: json.loads(path.read_text()) for name, path in paths.items() if path.is_file()}
    columns = [(dtype, name) for dtype in ("float32", "float64") for name in found if dtype in found[name]]
    measured = [found[name][dtype]["functions"] for dtype, name in columns]
    head = ["function", *(f"{dtype} {DRIVERS[name]}" for dtype, name in columns)]
    rows = [[f"`{name}`", *(f"{column[name]['ulps']:.2f}" for column in measured)] for name in sorted(measured[0])]
    points = sum(entry["points"] for column in measured for entry in column.values())
    flushing = [DRIVERS[name] for name in found if found[name]["float32"]["denormals"] == "flushed"]
    notes = (
        f"{points:,} points in all. Denormals of float32 are taken for 0 by {', '.join(flushing) or 'none of these'}."
    )
    return f"{table(head, rows)}\n\n{notes}"


def array_api() -> str:
    """What the array API standard has, and whether it is here."""
    standard = runpy.run_path(str(DOCS / "array_api.py"), run_name="array_api")
    return table(("section", "name", "state", "note"), standard["rows"]())


PARTS: dict[str, Callable[[], str]] = {
    "switches": switches,
    "operations": operations,
    "limitations": limitations,
    "ulps": ulps,
    **{f"family_{of.value}": partial(family, of) for of in Family},
    "array_api": array_api,
}


def filled(page: str) -> str:
    """`page` with each of its parts as it should be."""

    def part(found: re.Match[str]) -> str:
        name = found[1]
        return f"<!-- begin {name} -->\n{PARTS[name]()}\n<!-- end {name} -->"

    return re.sub(r"<!-- begin (\w+) -->\n.*?<!-- end \1 -->", part, page, flags=re.S)


def main() -> None:
    for path in sorted(DOCS.rglob("*.md")):
        old = path.read_text(encoding="utf-8")
        new = filled(old)
        if new != old:
            path.write_text(new, encoding="utf-8")
            print(f"wrote {path.relative_to(DOCS)}")


if __name__ == "__main__":
    main()
