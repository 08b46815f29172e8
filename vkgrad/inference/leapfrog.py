"""Hamilton's equations: a position rolls on minus the log density, with momentum; total energy stays.

This module must not know samplers.

Source: R. M. Neal, "MCMC using Hamiltonian dynamics", Handbook of Markov Chain Monte Carlo, chapter 5, 2011.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from vkgrad import functions as f
from vkgrad.tensor import Tensor

ValueAndGrad = Callable[[Tensor], tuple[Tensor, Tensor]]


class Phase(NamedTuple):
    """Where chains are and how they move.

    Shapes: position, momentum, gradient (C, D); log_density (C,).
    """

    position: Tensor
    momentum: Tensor
    log_density: Tensor
    gradient: Tensor


def leapfrog(value_and_grad: ValueAndGrad, phase: Phase, step_size: Any, inverse_mass: Any, steps: int) -> Phase:
    """`steps` leapfrog steps of all chains; the energy's error is of the order of step_size**2.

    `step_size` is one number, or (C, 1); `inverse_mass` (D,) is the diagonal of the inverse of the mass matrix. Half
    steps of the momentum that follow each other are one.
    """
    position, momentum, log_density, gradient = phase
    momentum = momentum + 0.5 * step_size * gradient
    for number in range(steps):
        position = position + step_size * (inverse_mass * momentum)
        log_density, gradient = value_and_grad(position)
        momentum = momentum + (step_size if number < steps - 1 else 0.5 * step_size) * gradient
    return Phase(position, momentum, log_density, gradient)


def energy(phase: Phase, inverse_mass: Any) -> Tensor:
    """The total energy (C,): half the square of the momentum over the mass, less the log density."""
    return 0.5 * (f.square(phase.momentum) * inverse_mass).sum(-1) - phase.log_density


def draw_momentum(even: Tensor, inverse_mass: Tensor) -> Tensor:
    """Momenta (C, D) whose energy is distributed as heat is, of even numbers (C, 2 D) in [0, 1).

    Normal numbers by a logarithm and a cosine, which are cheaper than the inverse of the error function that
    `random.normal` takes: a draw of a small density would spend most of its time there. Source: G. E. P. Box, M. E.
    Muller, "A Note on the Generation of Random Normal Deviates", 1958.
    """
    size = inverse_mass.shape[0]
    length, turn = even[:, :size], even[:, size:]
    return f.sqrt(-2 * f.log1p(-length)) * f.cos(turn * (2 * math.pi)) * f.rsqrt(inverse_mass)
