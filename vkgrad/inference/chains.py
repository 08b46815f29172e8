"""Where the chains of a run are, as tensors that recorded steps change in place; and what samplers hand out.

This module must not know samplers.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from vkgrad import functions as f
from vkgrad.errors import OptionError
from vkgrad.inference.density import Density
from vkgrad.inference.leapfrog import Phase
from vkgrad.tensor import Tensor, eval, tensor


class Outcome(NamedTuple):
    """One draw of all chains.

    Shapes: position (C, D); log_density, accepted (the probability of acceptance), diverged, steps (C,).
    """

    position: Tensor
    log_density: Tensor
    accepted: Tensor
    diverged: Tensor
    steps: Tensor


class Sampler(Protocol):
    """What moves chains."""

    def draw(self, number: int, collects: bool | None = None) -> Outcome: ...


class Chains:
    """Positions (C, D) with their log densities (C,) and gradients (C, D).

    Raises: `OptionError` where a chain begins at a place of no finite density or gradient.
    """

    def __init__(self, density: Density, rows: Tensor) -> None:
        self.value_and_grad = density.value_and_grad
        log_density, gradient = self.value_and_grad(rows)
        self.position, self.log_density, self.gradient = (tensor(x) for x in (rows, log_density, gradient))
        sound = f.isfinite(log_density) & f.isfinite(gradient).all(-1)
        eval(self.position, self.log_density, self.gradient, sound)
        if not sound.numpy().all():
            first = sound.tolist().index(False)
            raise OptionError(
                f"inference: chain {first} begins where the log density is {self.log_density[first].item()}, or its "
                "gradient is not finite; begin at places that are possible"
            )

    def phase(self, momentum: Tensor) -> Phase:
        return Phase(self.position, momentum, self.log_density, self.gradient)

    def become(self, taken: Tensor, other: Phase) -> None:
        """Move the chains for which `taken` (C,) holds to `other`."""
        row = taken.expand_dims(-1)
        self.position.assign(f.where(row, other.position, self.position))
        self.log_density.assign(f.where(taken, other.log_density, self.log_density))
        self.gradient.assign(f.where(row, other.gradient, self.gradient))
