"""Fit polynomials of the library of GLSL functions and write them: `python script/coefficients.py [--check]`.

Each polynomial interpolates a function at Chebyshev points, computed by mpmath with 60 digits; its coefficients are
then rounded to the precision that its name ends in. `error` in the comments is the largest difference from the function
before that rounding, on a fine grid, relative to the function's largest value. Nothing here is taken from another
library: a function, an interval and a degree are all that goes in.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import mpmath
from mpmath import mpf

OUT = Path(__file__).resolve().parents[1] / "templates" / "library" / "polynomials.glsl"
mpmath.mp.dps = 60
LN2 = mpmath.log(2)
DIGAMMA_ROOT = mpmath.findroot(mpmath.digamma, mpf("1.46163214496836"))


@dataclass(frozen=True)
class Fit:
    name: str
    what: str  # the comment
    function: Callable
    low: mpf
    high: mpf
    degree: int


def _exp_rest(r: mpf) -> mpf:
    """(e^r - 1 - r) / r^2; the middle point is not quite 0 and takes the most digits."""
    with mpmath.workdps(250):
        return (mpmath.expm1(r) - r) / r**2


def _odd(function: Callable, z: mpf) -> mpf:
    """(f(x) - x) / x^3 at x = sqrt(z), in 40 more digits than the rest."""
    with mpmath.workdps(100):
        x = mpmath.sqrt(z)
        return (function(x) - x) / (x * z)


def _erfc_scaled(t: mpf) -> mpf:
    x = 2 * (1 + t) / (1 - t)
    return (1 + 2 * x) * mpmath.exp(x * x) * mpmath.erfc(x)


def _erfinv_ratio(w: mpf) -> mpf:
    """erfinv(x) / x at x = sqrt(1 - exp(-w))."""
    with mpmath.workdps(80):
        rest = mpmath.exp(-w)
        x = mpmath.sqrt(1 - rest)
        tail = rest / (1 + x)  # 1 - x, without cancellation
        y = mpmath.sqrt(w) if w > 2 else mpmath.erfinv(x)
        if w > 2:  # Newton on log(erfc), which is nearly a parabola
            for _ in range(60):
                c = mpmath.erfc(y)
                step = mpmath.log(c / tail) * c * mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(y * y)
                y += step
                if abs(step) < mpf(10) ** -60:
                    break
        return y / x


def _lgamma(x: mpf) -> mpf:
    """lgamma(x) / ((x - 1) (x - 2))."""
    with mpmath.workdps(90):
        return mpmath.loggamma(x).real / ((x - 1) * (x - 2))


def _gamma(kind: str, degree: int) -> list[Fit]:
    """Of the logarithm of the gamma function without its roots, and of its derivative."""
    return [
        Fit(f"lgamma_one_{kind}", "lgamma(1 + e) / (e (e - 1)) for -0.3 <= e <= 0.5", lambda e: _lgamma(1 + e),
            mpf("-0.3"), mpf("0.5"), degree),
        Fit(f"lgamma_two_{kind}", "lgamma(2 + e) / (e (e + 1)) for -0.5 <= e <= 1", lambda e: _lgamma(2 + e),
            mpf("-0.5"), mpf(1), degree),
        Fit(f"digamma_root_{kind}", "digamma(x0 + e) / e for 1 <= x0 + e <= 2, x0 its root",
            lambda e: mpmath.digamma(DIGAMMA_ROOT + e) / e if e else mpmath.polygamma(1, DIGAMMA_ROOT),
            1 - DIGAMMA_ROOT, 2 - DIGAMMA_ROOT, degree),
        Fit(f"digamma_three_{kind}", "digamma(3 + e) for -1 <= e <= 1", lambda e: mpmath.digamma(3 + e),
            mpf(-1), mpf(1), degree),
    ]  # fmt: skip


FITS = [
    Fit("exp_tail_double", "(e^r - 1 - r) / r^2 for |r| <= ln(2) / 2",
        _exp_rest,
        -LN2 / 2 * mpf("1.001"), LN2 / 2 * mpf("1.001"), 10),
    Fit("log_tail_double", "(log((1 + s) / (1 - s)) - 2s) / s^3 in z = s^2 for |s| <= 3 - sqrt(8)",
        lambda z: 2 * _odd(mpmath.atanh, z), mpf(0), mpf("0.02945"), 7),
    Fit("log_far_tail_double", "(atanh(s) - s - s^3 / 3) / s^5 in z = s^2 for |s| <= 3 - sqrt(8)",
        lambda z: (_odd(mpmath.atanh, z) - mpf(1) / 3) / z, mpf(0), mpf("0.02945"), 7),
    Fit("sin_tail_double", "(sin r - r) / r^3 in z = r^2 for |r| <= pi / 4", lambda z: _odd(mpmath.sin, z),
        mpf(0), mpf("0.618"), 6),
    Fit("cos_tail_double", "(cos r - 1 + z / 2) / z^2 in z = r^2 for |r| <= pi / 4",
        lambda z: (mpmath.cos(mpmath.sqrt(z)) - 1 + z / 2) / z**2, mpf(0), mpf("0.618"), 6),
    Fit("asin_tail_double", "(asin x - x) / x^3 in z = x^2 for |x| <= 1/2", lambda z: _odd(mpmath.asin, z),
        mpf(0), mpf("0.2501"), 13),
    Fit("atan_tail_double", "(atan x - x) / x^3 in z = x^2 for |x| <= tan(pi / 8)", lambda z: _odd(mpmath.atan, z),
        mpf(0), mpf("0.1717"), 11),
    Fit("sinh_tail_double", "(sinh x - x) / x^3 in z = x^2 for |x| <= 1", lambda z: _odd(mpmath.sinh, z),
        mpf(0), mpf(1), 7),
    Fit("erf_tail_double", "erf(x) / x - 1 in z = x^2 for |x| <= 1",
        lambda z: mpmath.erf(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1, mpf(0), mpf(1), 13),
    Fit("erfc_scaled_double", "(1 + 2x) exp(x^2) erfc(x) in t = (x - 2) / (x + 2) for 0.45 <= x <= 28",
        _erfc_scaled, mpf("-0.64"), mpf("0.867"), 24),
    Fit("erfinv_near_double", "erfinv(x) / x in w - 3, w = -log(1 - x^2) <= 6", lambda u: _erfinv_ratio(u + 3),
        mpf(-3) + mpf(10) ** -12, mpf(3), 23),
    Fit("erfinv_middle_double", "erfinv(x) / x in sqrt(w) - 3.25 for 6 <= w <= 16",
        lambda u: _erfinv_ratio((u + mpf("3.25")) ** 2), mpf("-0.81"), mpf("0.76"), 21),
    Fit("erfinv_far_double", "erfinv(x) / x in sqrt(w) - 5 for 16 <= w <= 37",
        lambda u: _erfinv_ratio((u + 5) ** 2), mpf("-1.01"), mpf("1.09"), 19),
    *_gamma("double", 22),
    *_gamma("float", 10),
]  # fmt: skip


def chebyshev(fit: Fit) -> list[mpf]:
    """Coefficients, lowest first, of the polynomial through the function at degree + 1 Chebyshev points."""
    count = fit.degree + 1
    middle, half = (fit.high + fit.low) / 2, (fit.high - fit.low) / 2
    nodes = [mpmath.cos(mpmath.pi * (2 * k + 1) / (2 * count)) for k in range(count)]
    values = [fit.function(middle + half * u) for u in nodes]
    weights = [
        mpf(2 if j else 1) / count * sum(v * mpmath.cos(j * mpmath.acos(u)) for v, u in zip(values, nodes, strict=True))
        for j in range(count)
    ]
    # Sum of weights[j] T_j(u) in powers of u = (x - middle) / half, then in powers of x: all of it in 60 digits.
    total = [mpf(0)] * count
    previous, current = [mpf(1)], [mpf(0), mpf(1)]
    for weight in weights:
        for power, c in enumerate(previous):
            total[power] += weight * c
        following = [mpf(0), *(2 * c for c in current)]
        for power, c in enumerate(previous):
            following[power] -= c
        previous, current = current, following
    powers = [mpf(0)] * count
    basis = [mpf(1)]
    for c in total:
        for power, b in enumerate(basis):
            powers[power] += c * b
        shifted = [mpf(0), *(b / half for b in basis)]
        for power, b in enumerate(basis):
            shifted[power] -= b * middle / half
        basis = shifted
    return powers


def worst(fit: Fit, coefficients: list[mpf], points: int = 60) -> float:
    """The largest difference from the function, relative to its largest value."""
    xs = [fit.low + (fit.high - fit.low) * (k + mpf("0.37")) / points for k in range(points)]
    values = [fit.function(x) for x in xs]
    differences = [abs(v - mpmath.polyval(coefficients[::-1], x)) for v, x in zip(values, xs, strict=True)]
    return float(max(differences) / max(map(abs, values)))


def glsl(fit: Fit) -> str:
    coefficients = chebyshev(fit)
    error = worst(fit, coefficients)
    kind = fit.name.rpartition("_")[2]
    literals = [f"{float(c)!r}lf" if kind == "double" else f"{float(c):.10g}" for c in coefficients]
    lines = [f"// @function {fit.name}", f"// {fit.what}; error {error:.0e}", f"precise {kind} {fit.name}({kind} x) {{"]
    lines += [f"    precise {kind} y = {literals[-1]};"]
    lines += [f"    y = {c} + x * y;" for c in reversed(literals[:-1])]
    return "\n".join([*lines, "    return y;", "}"])


def text() -> str:
    head = "// Written by script/coefficients.py, which says how: do not edit. Polynomials of the library.\n"
    return "\n\n".join([head.rstrip(), *map(glsl, FITS)]) + "\n"


def main() -> None:
    new = text()
    if "--check" in sys.argv:
        sys.exit(0 if OUT.read_text() == new else f"{OUT.name} is not what script/coefficients.py writes")
    OUT.write_text(new)


if __name__ == "__main__":
    main()
