"""The GLSL of every element-wise op against its NumPy meaning, on a device, for every type and at every edge.

Each op is compiled alone with only the functions that it needs, so a block of the library that forgets to say what
it needs fails here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.ops.op_cases import ATTRIBUTES, ELEMENTWISE, INTEGERS, operand_dtypes, takes
from tests.tolerances import distance, ulps_of
from vkgrad.codegen import glslang
from vkgrad.codegen.render import extensions, functions, overloads, used_functions
from vkgrad.ir.dtypes import ANY, DTYPES, DType
from vkgrad.ir.op import OPS, Op

pytestmark = [pytest.mark.device, pytest.mark.swiftshader]

TARGET = glslang.Target.VULKAN_1_1
NAMES = "xyzw"
# Beside an op's own edges: values where formulas change, and the ends of the range.
SPECIAL = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.0,
    1e-6,
    -1e-6,
    3.5,
    -88.0,
    88.5,
    1e30,
    -1e30,
    np.inf,
    -np.inf,
    np.nan,
)


@pytest.fixture(scope="module")
def device() -> Iterator[Any]:
    from vkgrad.runtime._native import Device

    opened = Device()
    yield opened
    opened.close()


def compute(device: Any, op: Op, arrays: Sequence[np.ndarray], dtypes: Sequence[DType], attributes: dict) -> np.ndarray:
    """`op` on the device, in a kernel of its own."""
    out = op.dtype(dtypes, **attributes)
    assert op.glsl is not None
    glsl = op.glsl if isinstance(op.glsl, str) else op.glsl[dtypes[-1].kind]
    body = glsl.format(**dict(zip(NAMES, NAMES, strict=True)), **{**attributes, **out.glsl_fields})
    body = f"narrow_{out.name}({body})" if out.narrow else body
    needed = overloads((*dtypes, out))
    out = out.computed
    lines = ["layout(local_size_x = 64) in;"]
    for slot, d in enumerate(dtypes):
        lines.append(f"layout(binding = {slot}) readonly buffer B{slot} {{ {d.storage} b{slot}[]; }};")
    lines.append(f"layout(binding = {len(dtypes)}) writeonly buffer Out {{ {out.storage} result[]; }};")
    lines += used_functions(body, needed)
    lines += ["void main() {", "uint i = gl_GlobalInvocationID.x;", f"if (i >= {arrays[0].size}) return;"]
    lines += [f"{d.glsl} {NAMES[slot]} = {d.glsl}(b{slot}[i]);" for slot, d in enumerate(dtypes)]
    lines += [f"{out.glsl} value = {body};", f"result[i] = {out.storage}(value);", "}"]
    text = "\n".join(["#version 450", *extensions("\n".join(lines)), *lines])
    pipeline = device.pipeline(glslang.to_spirv(text, TARGET), len(dtypes) + 1)
    buffers = []
    for array, d in zip(arrays, dtypes, strict=True):
        stored = np.ascontiguousarray(array.astype(d.storage_numpy))
        buffers.append(device.buffer(stored.nbytes, "upload"))
        buffers[-1].write(stored)
    buffers.append(device.buffer(arrays[0].size * out.size_bytes, "download"))
    plan = device.plan()
    plan.dispatch(pipeline, buffers, ((arrays[0].size + 63) // 64, 1, 1))
    plan.barrier("host")
    plan.finish()
    device.wait(device.submit(plan))
    return np.frombuffer(buffers[-1], out.storage_numpy).astype(out.numpy)


def operands(op: Op, dtype: DType) -> list[np.ndarray]:
    """Points from the op's range, and every combination of edges."""
    columns, kinds = [], operand_dtypes(op, dtype)
    for i, d in enumerate(kinds):
        if d.kind == "f":
            edges = np.array([*SPECIAL, *op.samples.edges], d.numpy)
        else:
            edges = np.array(INTEGERS[d.name], d.numpy)
        columns.append((op.samples.draw((1500,), d.numpy, 11, i), edges))
    few = 40 if op.arity < 3 else 8
    grid = np.meshgrid(*(edges[:few] for _, edges in columns))
    return [np.concatenate([drawn, part.ravel()]) for (drawn, _), part in zip(columns, grid, strict=True)]


def worst(op: Op, found: np.ndarray, expected: np.ndarray, arrays: Sequence[np.ndarray]) -> tuple[float, str]:
    """How far the device is off, in ulps, and where. Signs of zeros count."""
    if found.dtype.kind != "f":
        off = np.where(found == expected, 0.0, np.inf)
    else:
        off = distance(found, expected.astype(np.float64), ulps_of(op.name).scale)
        # Devices may flush denormals to zero, of results and of operands.
        tiny = np.finfo(found.dtype).tiny
        off = np.where((np.abs(expected) < tiny) & (np.abs(found) < tiny), 0.0, off)
        zeros = (found == 0) & (expected == 0) & (np.signbit(found) != np.signbit(expected))
        off = np.where(zeros & (op.name not in EITHER_ZERO), np.inf, off)
    at = int(np.argmax(off))
    return float(off[at]), f"{op.name}{tuple(a[at] for a in arrays)} gave {found[at]}, expected {expected[at]}"


EITHER_ZERO = ("maximum", "minimum", "relu")  # of 0 and -0, NumPy too takes either

CASES = [
    pytest.param(op, dtype, attributes, id=f"{op.name}-{dtype.name}" + "".join(f"-{a}" for a in attributes.values()))
    for op in ELEMENTWISE
    for dtype in ANY
    for attributes in ATTRIBUTES.get(op.name, [{}])
    if takes(op, dtype) and not dtype.narrow
]


@pytest.mark.parametrize(("op", "dtype", "attributes"), CASES)
def test_glsl_is_the_meaning(device: Any, op: Op, dtype: DType, attributes: dict[str, Any]) -> None:
    if "float64" in (dtype.name, attributes.get("type")) and not device.info["features"]["shaderFloat64"]:
        pytest.skip("this device has no double precision")
    wide = {"int64", "uint64"}
    if wide & {dtype.name, attributes.get("type")} and not device.info["features"]["shaderInt64"]:
        pytest.skip("this device has no 64-bit integers")
    arrays, dtypes = operands(op, dtype), operand_dtypes(op, dtype)
    found = compute(device, op, arrays, dtypes, attributes)
    expected = op.numpy(*arrays, **attributes).astype(found.dtype)
    ulps, where = worst(op, found, expected, arrays)
    assert ulps <= ulps_of(op.name).shader(found.dtype), where


@pytest.mark.parametrize(
    ("name", "glsl"),
    [
        ("exp", "exp_float({x}) * 1.000001"),
        ("tanh", "tanh(max({x}, -3.0))"),
        ("sqrt", "abs({x})"),
        ("maximum", "max({x}, 0.0)"),
        ("sin", "{x} == 0.0 ? 0.0 : sin_float({x})"),  # the sign of zero
        ("isnan", "false"),
        ("remainder", "{x} - {y} * trunc({x} / {y})"),
    ],
)
def test_a_wrong_fragment_fails(device: Any, name: str, glsl: str) -> None:
    """The null arm."""
    op = replace(OPS[name], glsl=glsl)
    arrays, dtypes = operands(op, DTYPES["float32"]), operand_dtypes(op, DTYPES["float32"])
    found = compute(device, op, arrays, dtypes, {})
    ulps, _ = worst(op, found, op.numpy(*arrays), arrays)
    assert ulps > ulps_of(name).shader(np.dtype("float32"))


def test_every_function_is_used_and_small() -> None:
    """No block without a caller, and none that could not be read at a glance."""
    fragments = [op.glsl if isinstance(op.glsl, str) else " ".join(op.glsl.values()) for op in ELEMENTWISE if op.glsl]
    combines = [op.combine if isinstance(op.combine, str) else " ".join(op.combine.values())
                for op in OPS.values() if op.combine]  # fmt: skip
    text = " ".join(fragments + combines)
    text = " ".join(text.replace("{type}", precision) for precision in ("float", "double"))
    called = set(re.findall(r"\w+(?=\()", text))
    called |= {f"cast_{d.name}" for d in DTYPES.values()} | {"byte_of", "half_of"}
    called |= {f"{verb}_{d.name}" for d in DTYPES.values() if d.narrow for verb in ("narrow", "from", "to")}
    while True:
        needed = {
            need for name, (_, needs) in functions().items() if name.partition("@")[0] in called for need in needs
        }
        if {need.partition("@")[0] for need in needed} <= called:
            break
        called |= {need.partition("@")[0] for need in needed}
    assert {name for name in functions() if name.partition("@")[0] not in called} == set()
    assert max(len(text.splitlines()) for text, _ in functions().values()) <= 50
