"""Kernels of one level side by side in one dispatch: which may be, and the shader of several.

Each member keeps the row that it has alone, with the same order of its sums; only how many places a workgroup has may
change, for all members must agree on the invocations of a workgroup. What a template makes of a member becomes a
function of its workgroup, and the dispatch is the ranges of workgroups of all of them, one after the other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

from vkgrad.codegen.expressions import Numbers
from vkgrad.codegen.render import Shader, View, environment, shader_of
from vkgrad.codegen.rows import Limits, Row, choose, dispatch_size
from vkgrad.codegen.stacked import MemberNumbers, RowOf, in_slots_of
from vkgrad.schedule.kernel import Group, Kernel

THREADS = 256  # of a workgroup on a GPU
# Multiply-adds (or elements) beyond which a kernel stays alone: a dispatch costs a GPU 0.16 µs and lavapipe 30 µs, and
# members share their registers, of which each then has as many as the hungriest. H200, 10x128 over 2048 beside a sum:
# the level took 31.8 µs, and 27.5 apart.
LARGEST = 1 << 20

_LOCAL_SIZE = re.compile(r"^layout\(local_size_x = (\d+)\) in;\n", re.M)
_SHARED = re.compile(r"^shared (\w+) (\w+)\[(\d+)\];\n", re.M)


def fitted(kernel: Kernel, limits: Limits, row_of: RowOf) -> tuple[Row, dict[str, Any], int] | None:
    """The row of `kernel`, its parameters as a member, and the workgroup's invocations; None where it stays alone."""
    if kernel.routine is not None or kernel.places * kernel.terms > LARGEST:
        return None
    row = row_of(kernel) or choose(kernel, limits)
    p = row.parameters(kernel, limits)
    threads = None if limits.software else THREADS
    if row.template == "nest.comp.j2":
        threads = threads or p["lanes"] * p["local"]
        if p["lanes"] > threads:
            return None
        return row, {**p, "local": threads // p["lanes"], "each": 1}, threads
    if row.template == "contract.comp.j2":
        threads = threads or p["lanes_m"] * p["lanes_n"] * p["lanes_k"]
        lanes = p["lanes_m"] * p["lanes_n"] * p["lanes_k"]
        if threads % lanes or (p["lanes_k"] > 1 and threads * p["tm"] * p["tn"] * 4 > limits.shared_bytes // 4):
            return None
        return row, {**p, "lanes_n": p["lanes_n"] * threads // lanes}, threads
    if row.template == "contract_shared.comp.j2":
        own = (p["bm"] // p["tm"]) * (p["bn"] // p["tn"]) * p["slices"]
        shared_bytes = max(8 * p["bk"] * (p["bm"] + p["bn"] + 8), 4 * own * p["tm"] * p["tn"])
        return (row, p, own) if own == threads and shared_bytes <= limits.shared_bytes // 2 else None
    return None


def beside_for(limits: Limits, row_of: RowOf) -> Callable[[Kernel], Hashable]:
    """A key that kernels share which may be side by side; None for one that stays alone."""

    def key(kernel: Kernel) -> Hashable:
        found = fitted(kernel, limits, row_of)
        return found and found[2]

    return key


def render_beside(group: Group, limits: Limits, row_of: RowOf) -> Shader:
    """The shader of kernels side by side."""
    functions: list[str] = []
    cases: list[str] = []
    first = 0  # workgroup of the next member
    numbers, threads = Numbers(), 0
    pool: dict[tuple[str, int], int] = {}  # shared memory: type and number -> elements
    names: list[str] = []
    for number, member in enumerate(group.kernels):
        found = fitted(member, limits, row_of)
        assert found is not None, "the plan was made with other rows"
        row, parameters, threads = found
        kernel = in_slots_of(group, member)
        view = View(kernel, limits.packing)
        view.text.numbers = MemberNumbers(numbers, number)
        body = environment().get_template(row.template).render(view=view, kernel=kernel, **parameters)
        functions.append(_as_function(body, number, threads, pool))
        start = numbers.name(("first workgroup", number), first) if first else "0"
        first += row.groups(kernel, parameters)
        end = numbers.name(("end", number), first)
        cases.append(f"if (workgroup < {end}) member{number}(uvec2(workgroup - {start}, 0));")
        names.append(row.name)
    groups = dispatch_size(first, limits)
    width = numbers.name(("grid width",), groups[0])
    lines = [
        f"layout(local_size_x = {threads}) in;",
        *(f"shared {glsl} shared_{glsl}{place}[{size}];" for (glsl, place), size in pool.items()),
        *functions,
        "void main() {",
        f"    int workgroup = int(gl_WorkGroupID.y * {width} + gl_WorkGroupID.x);",
        "    " + "\n    else ".join(cases),
        "}",
    ]
    parameters_of = (("threads", threads), ("rows", tuple(names)))
    return shader_of(group, "\n".join(lines), limits, numbers, groups, "beside", parameters_of)


def _as_function(body: str, number: int, threads: int, pool: dict[tuple[str, int], int]) -> str:
    """A template's shader as a function of the workgroup; its shared memory is that of all, one at a time."""
    (local,) = _LOCAL_SIZE.findall(body)
    assert int(local) == threads, f"a member has workgroups of {local}, and the dispatch of {threads}"
    text = _SHARED.sub("", _LOCAL_SIZE.sub("", body))
    count: Counter[str] = Counter()
    for glsl, name, size in _SHARED.findall(body):
        place = (glsl, count[glsl])
        count[glsl] += 1
        pool[place] = max(pool.get(place, 0), int(size))
        text = re.sub(rf"\b{name}\b", f"shared_{glsl}{place[1]}", text)
    return text.replace("void main()", f"void member{number}(uvec2 workgroup)").replace("gl_WorkGroupID", "workgroup")
