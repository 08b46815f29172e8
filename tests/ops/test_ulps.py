"""The table of ulps in `docs/numerics.md`: everything is in it, within what is promised, and true of this device.

Points are drawn in blocks that are the same at every call, so one block must stay within what was measured over all.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

from benchmarks import ulps
from tests.ops.op_cases import ELEMENTWISE, takes
from tests.ops.test_glsl import compute, device  # noqa: F401  a fixture
from tests.ops.test_meanings import REFERENCE
from tests.tolerances import EXACT, NEIGHBOUR, ROUNDED, ulps_of
from vkgrad.codegen import render
from vkgrad.ir.dtypes import DTYPES
from vkgrad.ir.op import OPS

ROOT = Path(__file__).parents[2]
PROMISED = 4.0  # ulps, of every function on every device
TABLES = {path.stem: json.loads(path.read_text()) for path in sorted(ulps.KEPT.glob("*.json"))}
TYPES = ("float32", "float64")


# ---- what was measured
def test_every_function_of_floats_is_measured() -> None:
    rounding = {
        op.name
        for op in ELEMENTWISE
        if takes(op, DTYPES["float32"]) and ulps_of(op.name) not in (EXACT, NEIGHBOUR, ROUNDED)
    }
    assert set(ulps.FUNCTIONS) == rounding
    assert {"lavapipe", "swiftshader", "cpu"} <= set(TABLES)
    for table in TABLES.values():
        assert table["blocks"] >= 0.8 * ulps.BLOCKS
        for dtype in TYPES:
            assert dtype in table or (dtype == "float64" and table["driver"] == "swiftshader")
            assert set(table.get(dtype, {"functions": ulps.FUNCTIONS})["functions"]) == set(ulps.FUNCTIONS)


@pytest.mark.parametrize("driver", TABLES)
def test_what_was_measured_is_within_what_is_promised(driver: str) -> None:
    beyond = {
        (dtype, name): found["ulps"]
        for dtype in TYPES
        for name, found in TABLES[driver].get(dtype, {"functions": {}})["functions"].items()
        if found["ulps"] > PROMISED
    }
    assert not beyond


# ---- this device
def bound(driver: str, dtype: str, name: str) -> float:
    """What the table says of this device, or the promise."""
    table = TABLES.get(driver, {}).get(dtype)
    return float(table["functions"][name]["ulps"]) if table else PROMISED


@pytest.mark.device
@pytest.mark.swiftshader
@pytest.mark.parametrize("name", ulps.FUNCTIONS)
def test_a_block_stays_within_the_table(name: str) -> None:
    for dtype in ulps.types():
        found = ulps.measure(name, dtype, blocks=1)
        assert found["ulps"] <= bound(ulps.driver(), dtype.name, name), (dtype.name, found)


@pytest.mark.device
@pytest.mark.parametrize(
    ("name", "block", "right", "wrong"),
    [
        ("exp", "exp_tail_double", "0.0416666666666666", "0.0416666666667666"),
        ("sin", "sin_tail_double", "0.008333333333333331", "0.008333333333343331"),
        ("log", "log_double", "0.6931471804855391", "0.6931471804855395"),
        ("lgamma", "lgamma_two_double", "0.4227843350984", "0.4227843350989"),
        ("tan", "large_quarter_turns_double", "0xfc2757d1u", "0xfc2757d0u"),
        ("exp", "exp_tail_float", "0.0416663419", "0.0416683419"),
        ("sin", "large_quarter_turns_float", "0xf534ddc0u", "0xf534edc0u"),
    ],
)
def test_a_wrong_digit_fails(
    name: str, block: str, right: str, wrong: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """The null arm: the same block of points with one coefficient a little off."""
    dtype = np.dtype("float64" if block.endswith("_double") else "float32")
    if dtype not in ulps.types():
        pytest.skip("this device has no double precision")
    opened = request.getfixturevalue("device")

    def alone(name: str, operands: Sequence[np.ndarray], **_: Any) -> np.ndarray:
        return compute(opened, OPS[name], operands, [DTYPES[dtype.name]] * len(operands), {})

    allowed = bound(ulps.driver(), dtype.name, name)
    assert ulps.measure(name, dtype, 1, alone)["ulps"] <= allowed
    text, needs = render.functions()[block]
    assert right in text
    changed = {**render.functions(), block: (text.replace(right, wrong), needs)}
    monkeypatch.setattr(render, "functions", lambda: changed)
    assert ulps.measure(name, dtype, 1, alone)["ulps"] > allowed


# ---- the truth, the unit and the polynomials
FRACTIONS = {"divide": lambda x, y: mpmath.mpf(x) / mpmath.mpf(y), "reciprocal": lambda x: 1 / mpmath.mpf(x)}


@pytest.mark.parametrize("name", list(ulps.EXTENDED))
def test_the_truth_is_true(name: str) -> None:
    """The 80-bit functions of the C library against mpmath, to a two-hundredth of a double's ulp."""
    if np.finfo(np.longdouble).nmant < 63:
        pytest.skip("this machine's long double has no more digits than its double")
    operands = [x[::97][:60] for x in ulps.points(name, np.dtype("float64"), 0)]
    values = ulps.truth(name, operands)
    with mpmath.workdps(400):  # enough for sin(1e308)
        for point, value in zip(zip(*(x.tolist() for x in operands), strict=True), values, strict=True):
            if not np.isfinite(value) or not 1e-300 < abs(value) < 1e300 or (name == "softplus" and point[0] < -600):
                continue
            exact = REFERENCE[name](*map(mpmath.mpf, point)) if name not in FRACTIONS else FRACTIONS[name](*point)
            high = float(value)
            found = mpmath.mpf(high) + mpmath.mpf(float(value - np.longdouble(high)))
            assert abs(found - exact) <= abs(exact) * 2.0**-60


@pytest.mark.parametrize("dtype", [np.dtype("float32"), np.dtype("float64")], ids=str)
def test_distances(dtype: np.dtype) -> None:
    info = np.finfo(dtype)

    def of(found: Any, expected: Any) -> float:
        return float(ulps.distance(np.array([found], dtype), np.array([expected], np.longdouble))[0])

    one = np.longdouble(1)
    assert of(1, one) == 0 and of(1 + info.eps, one) == 1 and of(1 - info.epsneg, one) == 0.5
    assert of(0, info.smallest_subnormal) == 1 and of(info.smallest_subnormal, 0) == 1
    assert of(np.inf, info.max) == 1 and of(np.inf, np.inf) == 0 and of(-np.inf, np.inf) > 1e6
    assert of(np.nan, np.nan) == 0 and of(np.nan, 1) == np.inf and of(1, np.nan) == np.inf


def test_polynomials_are_what_the_script_writes() -> None:
    subprocess.run([sys.executable, "script/coefficients.py", "--check"], cwd=ROOT, check=True)


def test_a_kernel_includes_only_what_it_calls() -> None:
    single = "\n".join(render.used_functions("exp_float(x)"))
    assert "exp_tail_float" in single and "double" not in single and "log_" not in single
    double = "\n".join(render.used_functions("sin_double(x)", ("double",)))
    assert "two_over_pi" in double and "exp_" not in double
