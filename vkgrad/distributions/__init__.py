"""Probability distributions: log densities with gradients, samples by key, moments, entropies, divergences.

Names and arguments are those of `torch.distributions`; `sample` and `rsample` take a key first, as all that is random
here. A density is -inf outside of the support, and its gradient 0 there.
"""

from vkgrad.distributions import constraints
from vkgrad.distributions.bounded import Beta, Dirichlet, Uniform
from vkgrad.distributions.composed import Independent, MixtureSameFamily, TransformedDistribution
from vkgrad.distributions.discrete import Bernoulli, Binomial, Categorical, Poisson
from vkgrad.distributions.distribution import Distribution
from vkgrad.distributions.divergences import kl_divergence, register_kl
from vkgrad.distributions.half_line import Exponential, Gamma, HalfCauchy, HalfNormal, LogNormal, Weibull
from vkgrad.distributions.multivariate import MultivariateNormal
from vkgrad.distributions.real_line import Cauchy, Laplace, Normal, StudentT
from vkgrad.distributions.transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    SigmoidTransform,
    StickBreakingTransform,
    Transform,
    biject_to,
)

__all__ = [
    "AffineTransform", "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "ComposeTransform", "Dirichlet",
    "Distribution", "ExpTransform", "Exponential", "Gamma", "HalfCauchy", "HalfNormal", "Independent", "Laplace",
    "LogNormal", "MixtureSameFamily", "MultivariateNormal", "Normal", "Poisson", "SigmoidTransform",
    "StickBreakingTransform", "StudentT", "Transform", "TransformedDistribution", "Uniform", "Weibull", "biject_to",
    "constraints", "kl_divergence", "register_kl",
]  # fmt: skip
