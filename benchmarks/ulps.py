"""How far every function of floats is from the truth, in units in the last place, on the device at hand.

    python -m benchmarks.ulps [--out FILE] [--blocks N] [--slow-blocks N] [FUNCTION ...]

Points are drawn evenly over the logarithm of |x|. A block holds 100 of them in each decade from 1e-6 to 1e6, on each
side of 0, fewer beyond, down to the smallest denormal and up to the largest number, more close to where a function is
delicate (1 for log, the root of digamma); 100 blocks are measured. Then come the edges: zeros, infinities, NaN, the
ends of the range and of the denormals.

The truth about float32 is the op's meaning in double precision. That about float64 is the C library's 80-bit function,
where NumPy has one, and otherwise mpmath with 30 digits, which takes long: `--slow-blocks` says for how many blocks.
Results are kept in `bench_results/ulps`, where those of the functions asked for are replaced; `docs/generate.py` makes
a table of them, and `tests/ops/test_ulps.py` holds the truth against mpmath and a block against the table.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np

import vkgrad as vg
from vkgrad.ir.op import OPS
from vkgrad.tensor import apply

KEPT = Path(__file__).resolve().parents[1] / "bench_results" / "ulps"
BLOCKS = 100
PER_DECADE = 100  # in one block, on each side of 0
Long = np.longdouble


@dataclass(frozen=True)
class Domain:
    """Where a function of one variable is looked at: `low..high`, closer around `delicate`, wide out where `far`."""

    low: float = -inf
    high: float = inf
    delicate: tuple[float, ...] = ()
    far: bool = False  # every decade counts as much as those around 1


ROOT = 1.4616321449683622  # of digamma
DOMAINS: dict[str, Domain] = {
    "sqrt": Domain(0), "rsqrt": Domain(0), "reciprocal": Domain(), "cbrt": Domain(),
    "exp": Domain(-750, 712, (0, 88.7, 709.7)), "exp2": Domain(-1080, 1026, (0, 127.9)),
    "expm1": Domain(-750, 712, (0,)),
    "log": Domain(0, inf, (1,)), "log2": Domain(0, inf, (1,)), "log10": Domain(0, inf, (1,)),
    "log1p": Domain(-1, inf, (-1, 1)),
    "sin": Domain(far=True, delicate=(3.141592653589793, 1e5)), "cos": Domain(far=True, delicate=(1.5707963267948966,)),
    "tan": Domain(far=True, delicate=(1.5707963267948966, 3.141592653589793)),
    "asin": Domain(-1, 1, (-1, 0.5, 1)), "acos": Domain(-1, 1, (-1, 0.5, 1)), "atan": Domain(delicate=(1,)),
    "sinh": Domain(-712, 712, (1,)), "cosh": Domain(-712, 712, (1,)), "tanh": Domain(delicate=(1,)),
    "asinh": Domain(), "acosh": Domain(1, inf, (1,)), "atanh": Domain(-1, 1, (-1, 1)),
    "sigmoid": Domain(-750), "softplus": Domain(-750),
    "erf": Domain(delicate=(0.5, 1)), "erfc": Domain(-30, 28, (0.5, 1)), "erfinv": Domain(-1, 1, (-1, 1)),
    "lgamma": Domain(-200, inf, (1, 2, -1, -2)), "digamma": Domain(-200, inf, (ROOT, -1, 1)),
    "polygamma": Domain(0, inf),
}  # fmt: skip
PAIRS = ("divide", "pow", "atan2")
ATTRIBUTES: dict[str, dict[str, int]] = {"polygamma": {"order": 1}}
# Left of 0 these are differences of larger numbers, as exact as those: an ulp is at least that of this size there.
PARTS = {"lgamma": 4.0, "digamma": 4.0}
FUNCTIONS = (*DOMAINS, *PAIRS)


# ---- where to look
def _around(generator: np.random.Generator, info: Any, low: int, high: int, count: int) -> np.ndarray:
    """`count` numbers in each decade from 10**low to 10**high, of both signs."""
    exponents = np.arange(low, high).repeat(count) + generator.random((high - low) * count)
    sizes = np.minimum(Long(10) ** exponents.astype(Long), Long(info.max))
    return np.concatenate([sizes, -sizes]).astype(info.dtype)


def edges(dtype: np.dtype) -> np.ndarray:
    info = np.finfo(dtype)
    above = np.array(
        [0, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 10, 1 + info.eps, 1 - info.epsneg, 0.5 + info.epsneg, 2 - info.eps, 709.5,
         745, 88.7, 104, 1e10, info.max, info.tiny, info.tiny * 0.5, info.smallest_subnormal, inf, nan], dtype,
    )  # fmt: skip
    return np.concatenate([above, -above])


def points(name: str, dtype: np.dtype, block: int) -> tuple[np.ndarray, ...]:
    """The operands of one block; the same at every call."""
    generator = np.random.Generator(np.random.Philox([zlib.crc32(f"{name} {dtype}".encode()), block]))
    info = np.finfo(dtype)
    if name in PAIRS:
        return _pairs(name, generator, info)
    domain = DOMAINS[name]
    lowest, highest = int(np.floor(np.log10(info.smallest_subnormal.astype(Long)))), int(np.ceil(np.log10(info.max)))
    parts = [
        _around(generator, info, -6, 6, PER_DECADE), _around(generator, info, lowest, -6, 1),
        _around(generator, info, 6, highest, PER_DECADE // 10 if domain.far else 1),
    ]  # fmt: skip
    for center in domain.delicate:
        near = _around(generator, info, -int(info.precision) - 1, 0, PER_DECADE // 10)
        parts.append((center + near).astype(dtype))
    x = np.concatenate(parts)
    return (x[(x >= domain.low) & (x <= domain.high)].astype(dtype),)


def _pairs(name: str, generator: np.random.Generator, info: Any) -> tuple[np.ndarray, ...]:
    """Numbers of every size and ratio; for `pow` such that the results spread over the whole range."""
    most = int(np.log10(info.max))
    x = np.concatenate([_around(generator, info, -6, 6, PER_DECADE), _around(generator, info, -most, most, 5)])
    if name == "pow":
        near = (1 + _around(generator, info, -int(info.precision), -1, PER_DECADE // 4)).astype(info.dtype)
        x = np.concatenate([x, near])
        size = generator.uniform(np.log10(info.smallest_subnormal.astype(Long)) - 1, most + 1.2, x.size)
        with np.errstate(all="ignore"):
            y = (size / np.log10(np.abs(x.astype(Long)))).astype(info.dtype)
        y = np.where(generator.random(x.size) < 0.2, np.round(np.clip(y, -1e6, 1e6)), y)
        return np.where(y == np.round(y), x, np.abs(x)), y
    with np.errstate(all="ignore"):
        y = (x * _around(generator, info, -12, 12, -(-x.size // 48))[: x.size]).astype(info.dtype)
    return x, np.where(np.isfinite(y), generator.permuted(y), 1).astype(info.dtype)


# ---- the truth
def _sigmoid(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


EXTENDED: dict[str, Callable] = {
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x, "cbrt": np.cbrt,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "sigmoid": _sigmoid, "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "divide": np.divide, "pow": np.power, "atan2": np.arctan2,
}  # fmt: skip


def slow(name: str, dtype: np.dtype) -> bool:
    """Whether the truth takes mpmath."""
    return dtype.itemsize == 8 and name not in EXTENDED


def exact(name: str) -> Callable:
    """A function of one number and an approximation of its result, by mpmath with 30 digits."""
    import mpmath

    def erfinv(x: Any, near: float) -> Any:
        """Newton's step doubles the digits of `near`; from the side that is small where |x| is near 1."""
        y = mpmath.mpf(near)
        off = mpmath.erf(y) - x if abs(x) < 0.5 else mpmath.sign(x) * ((1 - abs(x)) - mpmath.erfc(abs(y)))
        first = off * mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(y * y)
        return y - first - first * first * y  # the second term is Halley's

    functions: dict[str, Callable] = {
        "erf": mpmath.erf, "digamma": mpmath.digamma,
        "erfc": lambda x: 1 - mpmath.erf(x) if abs(x) < 0.1 or x < -99 else mpmath.erfc(min(x, mpmath.mpf(99))),
        "lgamma": lambda x: mpmath.loggamma(x).real, "polygamma": lambda x: mpmath.polygamma(1, x),
    }  # fmt: skip
    return erfinv if name == "erfinv" else lambda x, near: functions[name](x)


def _by_mpmath(name: str, x: np.ndarray, meaning: np.ndarray) -> np.ndarray:
    """The truth as 80-bit numbers; where it is not finite, what the op means there."""
    import mpmath

    function, out = exact(name), meaning.astype(Long)
    with mpmath.workdps(30):
        for i, value in enumerate(x.tolist()):
            if np.isfinite(meaning[i]):
                found = function(mpmath.mpf(value), float(meaning[i]))
                high = float(found)
                out[i] = Long(high) + Long(float(found - high))
    return out


def truth(name: str, operands: Sequence[np.ndarray]) -> np.ndarray:
    """The exact results, to far more digits than the operands have."""
    dtype = operands[0].dtype
    with np.errstate(all="ignore"):
        wide = [x.astype(np.float64 if dtype.itemsize == 4 and name not in EXTENDED else Long) for x in operands]
        if name in EXTENDED:
            return EXTENDED[name](*wide)
        meaning = OPS[name].numpy(*(x.astype(np.float64) for x in operands), **ATTRIBUTES.get(name, {}))
        return meaning.astype(Long) if dtype.itemsize == 4 else _by_mpmath(name, operands[0], meaning)


# ---- the distance
def distance(found: np.ndarray, expected: np.ndarray, scale: Any = 0.0) -> np.ndarray:
    """Ulps between the two: the unit is that of `expected` rounded to the type of `found`, or of `scale` if larger.

    An infinity counts as the power of two after the largest number, and NaN is 0 away from NaN alone.
    """
    info = np.finfo(found.dtype)
    top = np.ldexp(Long(1), info.maxexp)
    with np.errstate(all="ignore"):
        size = np.clip(np.abs(expected), np.maximum(scale, info.tiny.astype(Long)), Long(info.max))
        unit = np.ldexp(Long(1), np.frexp(size)[1] - 1 - info.nmant)
        off = np.abs(np.clip(found.astype(Long), -top, top) - np.clip(expected, -top, top)) / unit
    neither = np.isnan(found) & np.isnan(expected)
    return np.where(neither, 0.0, np.where(np.isnan(off), inf, off)).astype(np.float64)


def keeps_denormals(dtype: np.dtype) -> bool:
    tiny = np.array([np.finfo(dtype).tiny], dtype)
    return bool((vg.tensor(tiny) * vg.tensor(np.array([0.5], dtype))).numpy()[0] != 0)


def compute(name: str, operands: Sequence[np.ndarray]) -> np.ndarray:
    """What the device makes of the points."""
    return apply(name, *map(vg.tensor, operands), **ATTRIBUTES.get(name, {})).numpy()


def measure(name: str, dtype: np.dtype, blocks: int = BLOCKS, compute: Callable = compute) -> dict[str, Any]:
    """The largest distance over the first blocks and all edges, and where it is.

    Where the device flushes denormals, as Vulkan allows for float32, a result may also be 0, or what 0 gives.
    """
    special = edges(dtype)
    corners = [g.ravel() for g in np.meshgrid(*[special] * (2 if name in PAIRS else 1))]
    drawn = [points(name, dtype, block) for block in range(blocks)]
    operands = [np.concatenate([*column, corner]) for *column, corner in zip(*drawn, corners, strict=True)]
    found = compute(name, operands)
    scale = np.where(operands[0] < 0, PARTS.get(name, 0.0), 0.0)
    off = distance(found, truth(name, operands), scale)
    if not keeps_denormals(dtype):
        tiny = np.finfo(dtype).tiny
        flushed = [np.where(np.abs(x) < tiny, np.copysign(dtype.type(0), x), x) for x in operands]
        expected = truth(name, flushed)
        off = np.minimum(off, distance(found, expected, scale))
        off = np.where((np.abs(expected) < tiny) & (np.abs(found) <= tiny), 0.0, off)
    at = int(np.argmax(off))
    where = [repr(x[at].item()) for x in operands]
    return {"ulps": float(np.ceil(off[at] * 100) / 100), "at": where, "points": len(found)}


def driver() -> str:
    """A short name of the device, which is that of its file of results."""
    name = vg.default_device().name.lower()
    known = {"llvmpipe": "lavapipe", "swiftshader": "swiftshader", "h200": "nvidia-h200", "cpu": "cpu"}
    return next((short for part, short in known.items() if part in name), name.replace(" ", "-"))


def types() -> list[np.dtype]:
    device = vg.default_device()
    has_doubles = getattr(getattr(device, "limits", None), "float64", True)
    return [np.dtype(np.float32), *([np.dtype(np.float64)] if has_doubles else [])]


def write(path: Path, results: dict[str, Any]) -> None:
    """All of it or, for whoever reads meanwhile, all of what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(results, indent=1) + "\n")
    part.replace(path)


def main() -> None:
    if np.finfo(Long).nmant < 63:
        raise SystemExit("this machine's long double has no more digits than its double: measure on another one")
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("functions", nargs="*", default=list(FUNCTIONS))
    parser.add_argument("--out", type=Path, help="where to write the results; else they are only printed")
    parser.add_argument("--blocks", type=int, default=BLOCKS)
    parser.add_argument("--slow-blocks", type=int, default=BLOCKS, help="of functions whose truth takes mpmath")
    arguments = parser.parse_args()
    kept = arguments.out and arguments.out.is_file() and set(arguments.functions) != set(FUNCTIONS)
    results: dict[str, Any] = json.loads(arguments.out.read_text()) if kept else {}
    results |= {"driver": driver(), "device": vg.default_device().name, "blocks": arguments.blocks}
    results["commit"] = os.environ.get("VKGRAD_COMMIT", "")
    started = time.perf_counter()
    for dtype in types():
        section = results.setdefault(dtype.name, {"functions": {}})
        section["denormals"] = "kept" if keeps_denormals(dtype) else "flushed"
        table = section["functions"]
        for name in arguments.functions:
            blocks = arguments.slow_blocks if slow(name, dtype) else arguments.blocks
            table[name] = measure(name, dtype, blocks)
            if arguments.out:  # whoever is cut short leaves what is known
                write(arguments.out, results)
            print(f"{dtype.name} {name:12} {table[name]['ulps']:10.2f}  at {', '.join(table[name]['at'])}", flush=True)
    print(f"{time.perf_counter() - started:.0f} s on {results['device']}")


if __name__ == "__main__":
    main()
