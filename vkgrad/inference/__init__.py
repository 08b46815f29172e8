"""Bayesian inference: draws from any density whose logarithm can be differentiated, and what says if they are good.

`sample` runs chains by `NUTS` or `HMC`, all at once; `r_hat` and `ess` look at their draws.
"""

from vkgrad.inference.diagnostics import ess, r_hat
from vkgrad.inference.hmc import HMC
from vkgrad.inference.leapfrog import Phase, energy, leapfrog
from vkgrad.inference.nuts import NUTS
from vkgrad.inference.sampling import Run, sample

__all__ = ["HMC", "NUTS", "Phase", "Run", "energy", "ess", "leapfrog", "r_hat", "sample"]
