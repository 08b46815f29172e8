"""Functions that NumPy's users expect beside the standard's: each against NumPy's of the same name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.variants import close, draw
from vkgrad.errors import OptionError, ShapeError
from vkgrad.testing import check_grads

LINE, OTHER, MATRIX, CUBE = draw(7), draw(7, seed=1), draw(4, 6), draw(2, 3, 4)
HOLES = MATRIX.copy()
HOLES[0, 1] = HOLES[2] = HOLES[3, 5] = np.nan
SPECIAL = np.array([0.0, -0.0, 1.5, np.inf, -np.inf, np.nan, -3.0], np.float32)
EDGES = np.array([-1.5, -0.5, 0.25, 1.0], np.float32)
WEIGHTS = draw(6, low=0.5, high=2)
COUNTS = np.array([1, 2, 0, 3, 1, 1], np.int32)

Case = tuple[str, tuple, dict[str, Any]]


def case(name: str, *arguments: Any, **options: Any) -> Case:
    return name, arguments, options


CASES: list[Case] = [
    case("nan_to_num", SPECIAL), case("nan_to_num", SPECIAL, nan=2.0, posinf=3.0, neginf=-4.0),
    case("nan_to_num", COUNTS),
    case("isclose", SPECIAL, SPECIAL[::-1].copy()), case("isclose", SPECIAL, SPECIAL, equal_nan=True),
    case("isclose", LINE, LINE + np.float32(1e-3), rtol=0.0, atol=1e-2), case("isclose", 1.0, SPECIAL),
    case("allclose", LINE, LINE), case("allclose", LINE, OTHER), case("allclose", SPECIAL, SPECIAL, equal_nan=True),
    case("array_equal", LINE, LINE), case("array_equal", LINE, OTHER), case("array_equal", LINE, MATRIX),
    case("array_equal", SPECIAL, SPECIAL), case("array_equal", SPECIAL, SPECIAL, equal_nan=True),
    case("interp", draw(3, 4, low=-3, high=3), np.sort(LINE), OTHER),
    case("interp", np.sort(LINE), np.sort(LINE), OTHER),
    case("interp", draw(9, low=-3, high=3), np.sort(LINE), OTHER, left=-9.0, right=9.0),
    case("interp", draw(9, low=-30, high=30), LINE, OTHER, period=5.0), case("interp", LINE, LINE[:1], OTHER[:1]),
    case("digitize", draw(3, 5), EDGES), case("digitize", EDGES, EDGES), case("digitize", EDGES, EDGES, right=True),
    case("digitize", EDGES, EDGES[::-1].copy()), case("digitize", EDGES, EDGES[::-1].copy(), right=True),
    case("polyval", LINE[:4], MATRIX), case("polyval", COUNTS, np.array([1, 2], np.int32)),
    case("trapezoid", CUBE), case("trapezoid", CUBE, dx=0.5, axis=0), case("trapezoid", CUBE, draw(3), axis=1),
    case("trapezoid", CUBE, draw(2, 3, 4, seed=2), axis=1),
    case("diff", CUBE), case("diff", CUBE, n=2, axis=1), case("diff", CUBE, n=0), case("diff", CUBE, n=9, axis=0),
    case("diff", COUNTS), case("diff", LINE > 0), case("diff", CUBE, axis=1, prepend=0.0, append=draw(2, 2, 4)),
    case("gradient", LINE), case("gradient", CUBE), case("gradient", CUBE, 0.5), case("gradient", CUBE, 2.0, axis=1),
    case("gradient", MATRIX, 2.0, np.cumsum(WEIGHTS), edge_order=2), case("gradient", CUBE, axis=(2, 1), edge_order=2),
    case("kron", MATRIX, draw(2, 3)), case("kron", LINE, MATRIX), case("kron", CUBE, LINE[:2]),
    case("kron", COUNTS, COUNTS),
    case("inner", MATRIX, draw(5, 6)), case("inner", CUBE, LINE[:4]), case("inner", 2.0, LINE),
    case("vdot", MATRIX, MATRIX),
    case("diag", LINE), case("diag", LINE, k=2), case("diag", LINE, k=-1), case("diag", MATRIX, k=1),
    case("diag", COUNTS > 1), case("diagflat", draw(2, 2), k=-1),
    case("vander", LINE[:4]), case("vander", LINE[:4], 3, increasing=True), case("vander", COUNTS),
    case("flipud", CUBE), case("fliplr", CUBE),
    *(case("rot90", CUBE, k=k, axes=axes) for k in range(-1, 5) for axes in ((0, 1), (2, 0))),
    *(case(name, n, k=k, m=m) for name in ("tril_indices", "triu_indices") for n, m in ((4, None), (3, 5), (5, 2))
      for k in (-6, -1, 0, 2, 7)),
    case("atleast_1d", 1.0), case("atleast_2d", LINE), case("atleast_3d", LINE), case("atleast_3d", MATRIX),
    case("atleast_3d", 2.0),
    case("hstack", [LINE, OTHER]), case("hstack", [MATRIX, MATRIX]), case("vstack", [LINE, OTHER]),
    case("dstack", [MATRIX, MATRIX]), case("column_stack", [LINE, OTHER]), case("identity", 3, dtype=np.float32),
    case("average", MATRIX), case("average", MATRIX, axis=1, weights=WEIGHTS), case("average", MATRIX, axis=0),
    case("average", MATRIX, weights=np.abs(MATRIX)), case("average", MATRIX, axis=1, weights=WEIGHTS, returned=True),
    case("ptp", CUBE), case("ptp", CUBE, axis=1), case("percentile", MATRIX, 30.0, axis=1),
    case("percentile", MATRIX, np.array([0.0, 50.0, 99.0])),
    case("cov", MATRIX), case("cov", MATRIX, rowvar=False), case("cov", LINE), case("cov", LINE, OTHER, bias=True),
    case("cov", MATRIX, ddof=2), case("cov", MATRIX, fweights=COUNTS), case("cov", MATRIX, aweights=WEIGHTS),
    case("cov", MATRIX, fweights=COUNTS, aweights=WEIGHTS), case("corrcoef", MATRIX), case("corrcoef", LINE, OTHER),
    case("corrcoef", LINE),
    *(case(name, HOLES, axis=axis, keepdims=keepdims)
      for name in ("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd", "nanmedian")
      for axis in (None, 0, 1) for keepdims in (False, True)),
    *(case(name, HOLES, axis=axis) for name in ("nancumsum", "nancumprod") for axis in (None, 0, 1)),
    *(case(name, HOLES, axis=axis) for name in ("nanargmax", "nanargmin") for axis in (None, 0)),
    case("nanquantile", HOLES, np.array([[0.0, 0.25], [0.9, 1.0]]), axis=1), case("nanquantile", HOLES, 0.3, axis=0),
    case("nanquantile", HOLES, np.array([0.5, 0.1]), keepdims=True), case("nanpercentile", HOLES, 70.0),
    case("nansum", COUNTS), case("nanmax", COUNTS),
    case("fmax", SPECIAL, SPECIAL[::-1].copy()), case("fmin", SPECIAL, SPECIAL[::-1].copy()), case("fmax", COUNTS, 1),
    case("fmod", LINE * 5, OTHER), case("fmod", COUNTS - 2, np.int32(2)), case("float_power", COUNTS, 0.5),
    case("logaddexp2", LINE, OTHER), case("sinc", np.array([0.0, 0.5, 1.0, -2.25], np.float32)),
    case("heaviside", SPECIAL, 0.25), case("deg2rad", LINE), case("rad2deg", LINE), case("isposinf", SPECIAL),
    case("isneginf", SPECIAL), case("select", [LINE > 1, LINE > 0], [LINE, -LINE], 5.0),
    case("isin", COUNTS, np.array([1, 3], np.int32)), case("isin", LINE, LINE[:2], invert=True),
    case("isin", COUNTS, np.zeros(0, np.int32)), case("argwhere", CUBE > 0), case("flatnonzero", MATRIX > 0),
    case("indices", (2, 3)), case("append", LINE, OTHER), case("append", MATRIX, MATRIX, 1),
    case("append", MATRIX, LINE),
    case("delete", LINE, 2), case("delete", MATRIX, [0, -1, 0], 1), case("delete", MATRIX, slice(None, None, 2), 0),
    case("delete", MATRIX, 3), case("array_split", LINE, 3), case("array_split", MATRIX, 4, axis=1),
    case("array_split", LINE, [2, 5]), case("logspace", -1, 2, 7), case("geomspace", 1.0, 1000.0, 4),
    case("geomspace", -8.0, -1.0, 4, endpoint=False), case("arcsin", LINE / 3), case("power", np.abs(LINE), OTHER),
    *(case(name, first, second, mode) for name in ("convolve", "correlate") for mode in ("full", "same", "valid")
      for first, second in ((LINE, OTHER[:3]), (LINE[:4], OTHER), (LINE[:1], OTHER[:1]), (COUNTS, COUNTS[:4]))),
]  # fmt: skip

NUMPYS_NAME = {"trapezoid": "trapezoid" if hasattr(np, "trapezoid") else "trapz"}


def given(value: Any) -> Any:
    if isinstance(value, list):
        return [given(part) for part in value]
    return vg.tensor(value) if isinstance(value, np.ndarray) and value.dtype != np.float64 else value


def compare(found: Any, expected: Any, like: np.dtype) -> None:
    if isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            compare(one, other, like)
        return
    expected = np.asarray(expected)
    if expected.dtype.kind == "f":
        expected = expected.astype(np.float32)
    elif expected.dtype.kind == "i":
        expected = expected.astype(np.int32)
    close(found, expected, 16)


@pytest.mark.parametrize(("name", "arguments", "options"), CASES, ids=[
    f"{number}-{name}" for number, (name, _, _) in enumerate(CASES)])  # fmt: skip
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_as_numpy(name: str, arguments: tuple, options: dict[str, Any]) -> None:
    wide = [a.astype(np.float64) if isinstance(a, np.ndarray) and a.dtype == np.float32 and name != "nan_to_num" else a
            for a in arguments]  # fmt: skip
    theirs = {"ddof" if key == "correction" else key: value for key, value in options.items()}
    expected = getattr(np, NUMPYS_NAME.get(name, name))(*wide, **theirs)
    found = getattr(vg, name)(*map(given, arguments), **{key: given(value) for key, value in options.items()})
    compare(found, expected, np.dtype(np.float32))


def test_rows_without_numbers() -> None:
    """Where NumPy raises or warns there is a value here: a kernel cannot raise."""
    expected = [-1 if np.isnan(row).all() else int(np.nanargmax(row)) for row in HOLES]
    assert vg.nanargmax(vg.tensor(HOLES), axis=1).tolist() == expected
    assert math.isnan(vg.nanmedian(vg.tensor([math.nan])).item())


def test_counts_and_shapes() -> None:
    assert vg.broadcast_shapes((2, 1), 3, (1,)) == (2, 3)
    close(vg.cumulative_trapezoid(vg.tensor([1.0, 3.0, 5.0]), dx=2), np.array([4.0, 12.0], np.float32))


SMOOTH: dict[str, tuple[Callable, tuple]] = {
    "interp": (vg.interp, (np.array([0.3, 1.7, 2.6]), np.array([0.0, 1.0, 2.0, 4.0]), draw(4))),
    "convolve": (vg.convolve, (draw(6), draw(3))),
    "correlate": (lambda a, v: vg.correlate(a, v, "same"), (draw(3), draw(5))),
    "gradient": (lambda x, t: vg.gradient(x, t, edge_order=2), (draw(5), np.array([0.0, 0.5, 1.5, 2.0, 3.5]))),
    "trapezoid": (vg.trapezoid, (draw(2, 5), np.array([0.0, 0.5, 1.5, 2.0, 3.5]))),
    "polyval": (vg.polyval, (draw(4), draw(3))),
    "cov": (lambda x: vg.cov(x, aweights=WEIGHTS), (draw(3, 6),)),
    "corrcoef": (vg.corrcoef, (draw(3, 6),)),
    "kron": (vg.kron, (draw(2, 2), draw(2, 3))),
    "diag": (lambda x: vg.diag(x, 1) * vg.diag(x, -1).T, (draw(3),)),
    "vander": (vg.vander, (draw(3, low=0.5),)),
    "rot90": (lambda x: vg.rot90(x) * vg.rot90(x, -1), (draw(3, 3),)),
    "average": (lambda x, w: vg.average(x, 1, w), (draw(2, 3), draw(3, low=0.5))),
    "sinc": (vg.sinc, (np.array([0.0, 0.3, -1.0]),)),
    "fmod": (vg.fmod, (np.array([2.5, -2.5, 1.0]), np.array([1.1, 0.7, -3.0]))),
    "hypot": (vg.hypot, (draw(4, low=0.5), draw(4, low=0.5, seed=2))),
    "copysign": (vg.copysign, (draw(4, low=0.5), draw(4, seed=2))),
}  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.usefixtures("on_cpu")
def test_gradients(name: str) -> None:
    function, arguments = SMOOTH[name]
    check_grads(function, tuple(vg.tensor(np.asarray(a, np.float64)) for a in arguments), order=2)


@pytest.mark.parametrize("function", [vg.nansum, vg.nanmean, vg.nanmax, vg.nanprod, vg.nanstd, vg.nanmedian])
def test_what_is_missing_gets_no_gradient(function: Callable) -> None:
    slope = vg.grad(lambda x: function(x))(vg.tensor(HOLES)).numpy()
    assert np.isfinite(slope).all() and not slope[np.isnan(HOLES)].any()
    close(vg.grad(lambda x: vg.nan_to_num(x).sum())(vg.tensor(SPECIAL)), np.isfinite(SPECIAL).astype(np.float32))


def test_mistakes_are_named() -> None:
    for complaint, call in {
        "convolve: mode must be": lambda: vg.convolve(vg.ones(3), vg.ones(2), "some"),
        "gradient: edge_order must be": lambda: vg.gradient(vg.ones(5), edge_order=3),
        "diff: n is how often": lambda: vg.diff(vg.ones(3), n=-1),
        "nanquantile: q must lie": lambda: vg.nanquantile(vg.ones(3), 2),
        "rot90: axes": lambda: vg.rot90(vg.ones((2, 2)), axes=(0, -2)),
    }.items():
        with pytest.raises(OptionError, match=complaint):
            call()
    for complaint, call in {
        "convolve: takes two": lambda: vg.convolve(vg.ones((3, 3)), vg.ones(2)),
        "gradient: axis 0 has 1": lambda: vg.gradient(vg.ones(1)),
        "gradient: 2 distances": lambda: vg.gradient(vg.ones((3, 3, 3)), 1.0, 2.0),
        "interp: takes as many": lambda: vg.interp(vg.ones(3), vg.ones(3), vg.ones(2)),
        "diag: takes one axis": lambda: vg.diag(vg.ones((2, 2, 2))),
        "average: weights": lambda: vg.average(vg.ones((2, 3)), 0, vg.ones(3)),
        "digitize: edges": lambda: vg.digitize(vg.ones(2), vg.ones((2, 2))),
    }.items():
        with pytest.raises(ShapeError, match=complaint):
            call()
