"""Random numbers that depend on a key and a position only: the same in any order, fused or not, and on every device.

What is computed from bits by a function (`normal`, say) differs between devices by that function's rounding.

A key is two 32-bit words on the device. Drawing twice with one key gives the same numbers; `split` makes new keys.
Rejection, where a distribution needs it, has a fixed number of candidates for each element: enough that all of them
fail less often than once in 10**8 draws, and then the first is taken.

Samples over the real line have derivatives by their parameters. This module must not know how anything is drawn.
"""

from vkgrad.draws.choosing import choice, permutation
from vkgrad.draws.continuous import (
    cauchy,
    exponential,
    gumbel,
    laplace,
    logistic,
    lognormal,
    multivariate_normal,
    normal,
    pareto,
    rayleigh,
    triangular,
    truncated_normal,
    uniform,
    weibull_min,
)
from vkgrad.draws.discrete import bernoulli, binomial, categorical, geometric, poisson, rademacher, randint
from vkgrad.draws.gammas import beta, chisquare, dirichlet, gamma, loggamma, t
from vkgrad.draws.keys import (
    bits,
    fold_in,
    generator_state,
    key,
    manual_seed,
    next_key,
    set_generator_state,
    split,
)
from vkgrad.elsewhere import RANDOM
from vkgrad.spelling import answer_misspellings

__all__ = [
    "bernoulli",
    "beta",
    "binomial",
    "bits",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "dirichlet",
    "exponential",
    "fold_in",
    "gamma",
    "generator_state",
    "geometric",
    "gumbel",
    "key",
    "laplace",
    "loggamma",
    "logistic",
    "lognormal",
    "manual_seed",
    "multivariate_normal",
    "next_key",
    "normal",
    "pareto",
    "permutation",
    "poisson",
    "rademacher",
    "randint",
    "rayleigh",
    "set_generator_state",
    "split",
    "t",
    "triangular",
    "truncated_normal",
    "uniform",
    "weibull_min",
]


def __dir__() -> list[str]:
    return sorted(__all__)


answer_misspellings(globals(), RANDOM)
