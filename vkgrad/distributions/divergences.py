"""`kl_divergence`: the mean under p of log p - log q, in closed form, by a table of pairs of families.

Pairs of one's own are added with `register_kl`. This module must not know how densities are computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from vkgrad import functions as f
from vkgrad import linalg
from vkgrad.distributions.bounded import Beta, Dirichlet, Uniform, dirichlet_divergence
from vkgrad.distributions.composed import Independent
from vkgrad.distributions.discrete import Bernoulli, Binomial, Categorical, Poisson
from vkgrad.distributions.distribution import Distribution
from vkgrad.distributions.half_line import EULER, Exponential, Gamma, HalfNormal, LogNormal, Weibull
from vkgrad.distributions.multivariate import MultivariateNormal, whitened
from vkgrad.distributions.parameters import times, together
from vkgrad.distributions.real_line import Cauchy, Laplace, Normal
from vkgrad.errors import ShapeError, UnsupportedError
from vkgrad.tensor import Tensor

Divergence = Callable[[Any, Any], Tensor]
_PAIRS: dict[tuple[type, type], Divergence] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Divergence], Divergence]:
    """A decorator: the function of (p, q) is their divergence."""

    def register(function: Divergence) -> Divergence:
        _PAIRS[type_p, type_q] = function
        return function

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The Kullback-Leibler divergence of q from p, one number for each pair of the batch.

    Raises: `UnsupportedError` for a pair of which no closed form is known here.

    Example:
        >>> from vkgrad.distributions import Normal, kl_divergence
        >>> kl_divergence(Normal(1.0, 1.0), Normal(0.0, 1.0)).item()
        0.5
    """
    found = _PAIRS.get((type(p), type(q)))
    if found is None:
        raise UnsupportedError(
            f"kl_divergence: none is known of {type(p).__name__} and {type(q).__name__}; add it with register_kl, or "
            "average p.log_prob(x) - q.log_prob(x) over samples x of p"
        )
    return found(p, q)


def _both(p: Distribution, q: Distribution) -> list[Tensor]:
    """The parameters of p and q in one type."""
    return together(*p._kept(), *q._kept())


@register_kl(Normal, Normal)
@register_kl(LogNormal, LogNormal)
def _normal(p: Any, q: Any) -> Tensor:
    loc, scale, other_loc, other_scale = _both(p, q)
    ratio = f.square(scale / other_scale)
    return 0.5 * (ratio + f.square((loc - other_loc) / other_scale) - 1 - f.log(ratio))


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Tensor:
    scale, other = _both(p, q)
    ratio = f.square(scale / other)
    return 0.5 * (ratio - 1 - f.log(ratio))


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Tensor:
    loc, scale, other_loc, other_scale = _both(p, q)
    apart = f.abs(loc - other_loc)
    ratio = scale / other_scale
    return apart / other_scale + ratio * f.exp(-apart / scale) - f.log(ratio) - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Tensor:
    loc, scale, other_loc, other_scale = _both(p, q)
    whole = f.square(scale + other_scale) + f.square(loc - other_loc)
    return f.log(whole) - f.log(4 * scale * other_scale)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Tensor:
    rate, other = _both(p, q)
    return f.log(rate / other) + other / rate - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Tensor:
    a, rate, other_a, other_rate = _both(p, q)
    sizes = f.lgamma(other_a) - f.lgamma(a) + other_a * f.log(rate / other_rate)
    return sizes + (a - other_a) * f.digamma(a) + (other_rate - rate) * a / rate


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Any, q: Any) -> Tensor:
    return _gamma(Gamma(1.0, p.rate), q)


@register_kl(Gamma, Exponential)
def _gamma_exponential(p: Any, q: Any) -> Tensor:
    return _gamma(p, Gamma(1.0, q.rate))


@register_kl(Weibull, Weibull)
def _weibull(p: Any, q: Any) -> Tensor:
    # Bauckhage, "Computing the Kullback-Leibler Divergence between two Weibull Distributions", 2013, equation 15
    scale, k, other_scale, other_k = _both(p, q)
    sizes = f.log(k) - k * f.log(scale) - f.log(other_k) + other_k * f.log(other_scale)
    power = f.exp(other_k * f.log(scale / other_scale) + f.lgamma(other_k / k + 1))
    return sizes + (k - other_k) * (f.log(scale) - EULER / k) + power - 1


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Tensor:
    low, high, other_low, other_high = _both(p, q)
    found = f.log((other_high - other_low) / (high - low))
    return f.where((other_low > low) | (other_high < high), math.inf, found)


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Tensor:
    found = _both(p, q)
    return dirichlet_divergence(_pair(*found[:2]), _pair(*found[2:]))


def _pair(a: Tensor, b: Tensor) -> Tensor:
    return f.stack(f.broadcast_arrays(a, b), -1)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Tensor:
    return dirichlet_divergence(p.concentration, q.concentration)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Tensor:
    kept, other = _both(p, q)
    (yes, no), (other_yes, other_no) = p._logs(kept), q._logs(other)
    chance = p._chance(kept)
    rest = 1 - chance
    return times(chance, yes) + times(rest, no) - times(chance, other_yes) - times(rest, other_no)


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Tensor:
    n, kept, other_n, other = _both(p, q)
    one = _bernoulli(_chance_of(p, kept), _chance_of(q, other))
    # With more trials p has values that q has not; with fewer there is no closed form.
    return f.where(n == other_n, n * one, f.where(n > other_n, math.inf, math.nan))


def _chance_of(binomial: Binomial, kept: Tensor) -> Bernoulli:
    return Bernoulli(kept) if binomial.probs is not None else Bernoulli(logits=kept)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Tensor:
    if p.count != q.count:
        raise ShapeError(f"kl_divergence: one Categorical has {p.count} indices, the other {q.count}")
    logs, others = p.log_probabilities, q.log_probabilities
    chances = f.exp(logs)
    return (times(chances, logs) - times(chances, others)).sum(-1)


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Tensor:
    rate, other = _both(p, q)
    return times(rate, f.log(rate)) - times(rate, f.log(other)) - (rate - other)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Tensor:
    loc, factor, other_loc, other_factor = _both(p, q)
    sizes = f.log(linalg.diagonal(other_factor)).sum(-1) - f.log(linalg.diagonal(factor)).sum(-1)
    spread = f.square(linalg.triangular_solve(other_factor, factor)).sum((-2, -1))
    apart = f.square(whitened(other_factor, loc - other_loc)).sum(-1)
    return sizes + 0.5 * (spread + apart - loc.shape[-1])


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise ShapeError("kl_divergence: the two take different numbers of axes as one event")
    return p._summed(kl_divergence(p.base_dist, q.base_dist))
