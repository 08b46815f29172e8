"""The meaning of the special functions that NumPy lacks, on NumPy arrays.

Everything is computed in double precision to a few units in the last place, then cast to the operand's type. The
polynomials are least-squares fits made for this file against 40-digit values; each says what it approximates and where.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import factorial, log, pi, sqrt
from typing import Any

import numpy as np

# erf(x) / x in x**2 for |x| <= 1; error 4e-19
_ERF = (
    1.1283791670955126, -0.37612638903183747, 0.11283791670954891, -0.02686617064507962, 0.0052239776248489335,
    -0.00085483269827511634, 0.00012055331184948191, -1.4925597077053175e-5, 1.6461029915701752e-6,
    -1.635062584118518e-7, 1.4661873956533014e-8, -1.1380888950766375e-9, 5.9706019223651173e-11,
)  # fmt: skip
# (1 + 2x) exp(x**2) erfc(x) in t = (x - 2) / (x + 2) for 0.45 <= x <= 28; error 4e-17. The variable and the factor are
# those of Shepherd & Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x", Math. Comp. 36 (1981).
_ERFC = (
    1.2769783815525287, -0.09276382658574521, -0.16603039761528161, 0.16405128003331329, -0.054220000992634752,
    -0.0080340150761737901, 0.0087226538927595867, 0.0012713388241692643, -0.0014568141793796988,
    -0.00045433903140140536, 0.00020636883925551208, 0.00015102522248014225, -1.514987603435582e-6,
    -3.6354593603505276e-5, -1.3495549705762437e-5, 3.4943673924920698e-6, 5.3011725418415166e-6,
    1.9259653052084912e-6, -9.5545543440319118e-7, -1.3032251122169458e-6, 1.3170686531171707e-7,
    3.7570649626323746e-7, -9.2884947719192787e-8,
)  # fmt: skip
# lgamma(1 + e) / (e (e - 1)) for -0.3 <= e <= 0.5; error 2e-18
_LGAMMA_ONE = (
    0.5772156649015329, -0.2452513685225804, 0.15543426586395184, -0.1151465425638076, 0.09223900846458515,
    -0.0773181685367194, 0.06673172827094029, -0.05877794100212905, 0.05255632215961096, -0.04754314242677573,
    0.04341098066185953, -0.0399428285646893, 0.036987288198098024, -0.0344425123733608, 0.03225634529042908,
    -0.030328716618042623, 0.028332718945359686, -0.02630280372095833, 0.02592508146627872, -0.028192330944683597,
    0.02774326631566668, -0.018161636558206747, 0.0054283966455931434,
)  # fmt: skip
# lgamma(2 + e) / (e (e + 1)) for -0.5 <= e <= 1; error 3e-19
_LGAMMA_TWO = (
    0.42278433509846713, -0.10031730167435392, 0.032965000621155774, -0.012384192193371205, 0.004998641164701862,
    -0.0021081308339636912, 0.000915376922103127, -0.00040570739717990365, 0.00018255264138526377,
    -8.309513290348915e-05, 3.8168871698703404e-05, -1.7661605152121955e-05, 8.222235565371324e-06,
    -3.847746126363096e-06, 1.8083238831664818e-06, -8.517044744252957e-07, 4.0183642984248583e-07,
    -1.9262966754780493e-07, 9.569299673447421e-08, -4.6708936076567065e-08, 1.8979627704095772e-08,
    -5.137281438824563e-09, 6.553681503756507e-10,
)  # fmt: skip
# digamma(x0 + e) / e for 1 <= x0 + e <= 2, where x0 is its root; error 3e-18
_DIGAMMA_ROOT = (
    0.9676722454476212, -0.4427631689835921, 0.2584997609556486, -0.16394270544241185, 0.1078240506916922,
    -0.07219956125611147, 0.048804288134436574, -0.03316112647814546, 0.02259764928437279, -0.015424766261277919,
    0.010538769938576956, -0.007204519666511045, 0.0049270580267742016, -0.0033700680515484165, 0.0023028895420557894,
    -0.00157420216813665, 0.0010901225234458578, -0.0007549229618596274, 0.0004717939701691318,
    -0.0002843132292526133, 0.0002805343686746867, -0.0002785074876883787, 0.00011881232908510335,
)  # fmt: skip
# digamma(3 + e) for -1 <= e <= 1; error 2e-18
_DIGAMMA_THREE = (
    0.9227843350984671, 0.39493406684822646, -0.07705690315959429, 0.019823233711134862, -0.005677755143368817,
    0.0017180619845354134, -0.0005367773819515793, 0.00017110619691420163, -5.526782573889967e-05,
    1.8012634635133646e-05, -5.9073563913857425e-06, 1.9459008352596906e-06, -6.430259226267795e-07,
    2.1304958946184967e-07, -7.06817711097889e-08, 2.3351638439175582e-08, -7.763545025251715e-09,
    2.7242742307479803e-09, -9.068336793645203e-10, 2.0269507176299237e-10, -6.749345689248068e-11,
    6.218811526831498e-11, -2.0722454724131336e-11,
)  # fmt: skip
# The even Bernoulli numbers B2, B4 …, for the asymptotic series (DLMF 5.11.1, 5.11.2, 25.11.43).
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def _in_double(function: Callable) -> Callable:
    def meaning(x: Any, **attributes: Any) -> Any:
        x = np.asarray(x)
        return np.asarray(function(x.astype(np.float64), **attributes)).astype(x.dtype)

    meaning.__doc__ = function.__doc__
    return meaning


def _polynomial(coefficients: Sequence[float], x: Any) -> Any:
    total = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def _erf(x: Any) -> Any:
    near = x * _polynomial(_ERF, np.minimum(x * x, 1.0))
    return np.where(np.abs(x) < 0.8, near, np.where(np.isnan(x), x, np.sign(x) * (1 - _erfc_tail(np.abs(x)))))


def _erfc_tail(x: Any) -> Any:
    """erfc for x >= 0.45."""
    x = np.clip(x, 0.45, 28.0)  # beyond 28 it is 0 in double precision
    # x**2 is split so that its rounding, magnified by exp, does not cost digits.
    head = np.round(x * 2**20) / 2**20
    scale = np.exp(-head * head)
    scale = scale + scale * np.expm1((head - x) * (head + x))
    return scale * (_polynomial(_ERFC, (x - 2) / (x + 2)) / (1 + 2 * x))


def _erfc(x: Any) -> Any:
    far = np.where(x < 0, 2 - _erfc_tail(-x), _erfc_tail(x))
    return np.where(np.abs(x) < 0.8, 1 - _erf(x), np.where(np.isnan(x), x, far))


def _erfinv(x: Any) -> Any:
    distance = np.abs(x)
    # A start within 0.002 (Winitzki 2008), then Newton: on erf near 0; on log(erfc) near 1, where erf is flat.
    a = 0.147
    half = 2 / (pi * a) + np.log((1 - distance) * (1 + distance)) / 2
    y = np.sqrt(np.sqrt(half * half - np.log((1 - distance) * (1 + distance)) / a) - half)
    for _ in range(4):
        slope = 2 / sqrt(pi) * np.exp(-y * y)
        tail = _erfc(y)
        near = y - (_erf(y) - distance) / slope
        far = y + tail * np.log(tail / (1 - distance)) / slope
        y = np.where(distance < 0.5, near, far)
    y = np.where(distance < 1e-8, distance * (sqrt(pi) / 2), np.where(distance == 1, np.inf, y))
    return np.where(distance <= 1, np.copysign(y, x), np.nan)


def _turns_to_half(x: Any) -> Any:
    """x - round(x), exactly, for sin(pi x) and tan(pi x)."""
    return x - np.round(x)


def _lgamma_to_three(e: Any) -> Any:
    """lgamma(1 + e) for -0.3 <= e <= 2: both roots are factors."""
    one, f = np.clip(e, -0.3, 0.5), np.clip(e - 1, -0.5, 1.0)
    near = one * (one - 1) * _polynomial(_LGAMMA_ONE, one)
    return np.where(e == 0, 0.0, np.where(e < 0.5, near, f * (f + 1) * _polynomial(_LGAMMA_TWO, f)))


def _lgamma_positive(x: Any) -> Any:
    z = np.minimum(x, 10.0)
    small = _lgamma_to_three(z) - np.log(z)  # below 0.7: lgamma(x) = lgamma(x + 1) - log(x)
    product = np.ones_like(z)
    for _ in range(8):
        step = z > 3
        z = np.where(step, z - 1, z)
        product = np.where(step, product * z, product)
    middle = _lgamma_to_three(z - 1) + np.log(product)
    inverse = 1 / np.maximum(x, 8.0)
    series = sum(b / (2 * k * (2 * k - 1)) * inverse ** (2 * k - 1) for k, b in enumerate(_BERNOULLI, 1))
    far = x * (np.log(x) - 1) - 0.5 * np.log(x) + 0.5 * log(2 * pi) + series
    return np.where(x < 0.7, small, np.where(x < 10, middle, np.where(np.isinf(x), x, far)))


def _lgamma(x: Any) -> Any:
    away = np.abs(x)
    small = _lgamma_to_three(x) - np.log(away)  # left of 0 by the recurrence, farther by reflection
    reflected = log(pi) - np.log(away * np.abs(np.sin(pi * _turns_to_half(away)))) - _lgamma_positive(away)
    left = np.where((x == np.round(x)) | np.isinf(x), np.inf, np.where(x > -0.3, small, reflected))
    return np.where(x > 0, _lgamma_positive(x), np.where(np.isnan(x), x, left))


def _digamma_positive(x: Any) -> Any:
    e = np.where(x < 1, x, x - 1)  # digamma(1 + e) plus `total`, with e taken to 0 .. 3
    total = np.where(x < 1, -1 / x, 0.0)
    for _ in range(6):
        step = (e > 3) & (x < 10)
        e = np.where(step, e - 1, e)
        total = np.where(step, total + 1 / (e + 1), total)
    from_root = np.minimum(e, 1.0) - 0.46163214496836236 + 1.5522348162858677e-17
    three = _polynomial(_DIGAMMA_THREE, np.clip(e, 1.0, 3.0) - 2)
    near = np.where(e > 1, three, from_root * _polynomial(_DIGAMMA_ROOT, from_root)) + total
    inverse = 1 / np.maximum(x, 10.0)
    series = sum(b / (2 * k) * inverse ** (2 * k) for k, b in enumerate(_BERNOULLI, 1))
    return np.where(x < 10, near, np.log(x) - inverse / 2 - series)


def _digamma(x: Any) -> Any:
    reflected = _digamma_positive(1 - x) - pi / np.tan(pi * _turns_to_half(x))
    at_pole = np.where(x == 0, np.copysign(np.inf, -x), np.nan)
    return np.where(x > 0, _digamma_positive(x), np.where(x == np.round(x), at_pole, reflected))


def _zeta(s: int, x: Any) -> Any:
    """The Hurwitz zeta function, sum of (x + k)**-s over k >= 0, for x > 0 (DLMF 25.11.43). Small terms come first."""
    steps = np.where(x < 12, np.ceil(12 - np.minimum(x, 12.0)), 0.0)
    end = x + steps
    factor: float = s
    series = 0.0
    for k, b in enumerate(_BERNOULLI, 1):
        series = series + b / factorial(2 * k) * factor * end ** (1 - 2 * k)
        factor *= (s + 2 * k - 1) * (s + 2 * k)
    total = (end / (s - 1) + 0.5 + series) / end ** (s - 1) / end
    for k in range(11, -1, -1):
        total = np.where(k < steps, total + (1 / (x + k)) ** s, total)
    return total


def _polygamma(x: Any, *, order: int) -> Any:
    factor = (-1.0) ** (order + 1) * factorial(order)
    value = np.where(np.isposinf(x), 0.0, factor * _zeta(order + 1, np.where(x > 0, x, 1.0)))
    beyond = (-1.0) ** order * factor * _zeta(order + 1, np.where(x > 0, 1.0, 1 - x))
    if order == 1:
        reflected = (pi / np.sin(pi * _turns_to_half(x))) ** 2 + beyond
        return np.where(x > 0, value, np.where(np.isneginf(x), np.nan, reflected))
    # DLMF 5.15.6: less the derivative of pi cot(pi x), a polynomial in the cotangent whose terms have one sign.
    r = _turns_to_half(x)
    cotangent = np.sin(pi * (0.5 - np.abs(r))) / np.sin(pi * r)
    reflected = beyond - pi ** (order + 1) * _polynomial(_cotangent_derivative(order), cotangent)
    at_pole = np.inf if order % 2 else np.where(x == 0, np.copysign(np.inf, -x), np.nan)
    return np.where(x > 0, value, np.where(np.isneginf(x), np.nan, np.where(x == np.round(x), at_pole, reflected)))


def _cotangent_derivative(order: int) -> tuple[float, ...]:
    """Coefficients, the constant first, of the derivative of cot as a polynomial p in it: p becomes -(1 + c**2) p'."""
    found = [0.0, 1.0]
    for _ in range(order):
        slope = [k * a for k, a in enumerate(found)][1:]
        found = [0.0] * (len(found) + 1)
        for k, a in enumerate(slope):
            found[k] -= a
            found[k + 2] -= a
    return tuple(found)


def _sigmoid(x: Any) -> Any:
    e = np.exp(-np.abs(x))  # does not overflow, so that small results keep their digits
    return np.where(x < 0, e, 1) / (1 + e)


def _softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


erf = _in_double(_erf)
erfc = _in_double(_erfc)
erfinv = _in_double(_erfinv)
lgamma = _in_double(_lgamma)
digamma = _in_double(_digamma)
polygamma = _in_double(_polygamma)
sigmoid = _in_double(_sigmoid)
softplus = _in_double(_softplus)
