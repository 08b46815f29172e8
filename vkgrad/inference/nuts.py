"""The No-U-Turn Sampler: trajectories that double in length until they turn back, batched over chains.

A trajectory is a tree of leapfrog steps. Two trees of one size, one going on from the end of the other, make one of
twice the size; chains that are through wait for the others. A doubling of up to `UNROLLED` steps is one recorded step:
one submission. Larger trees are put together from such blocks with no recursion, as a binary counter counts, in memory
for one tree a level. This module must not know how chains are started or draws are kept.

Source: M. D. Hoffman, A. Gelman, "The No-U-Turn Sampler", JMLR 15, 2014.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from vkgrad import functions as f
from vkgrad import random, tree
from vkgrad.errors import OptionError
from vkgrad.inference.adapting import Adaptation
from vkgrad.inference.chains import Chains, Outcome, Sampler
from vkgrad.inference.hmc import FAR, check, probability
from vkgrad.inference.leapfrog import Phase, draw_momentum, energy, leapfrog
from vkgrad.inference.trees import Tree, Trunk, either, merged, turns_back
from vkgrad.jit import jit
from vkgrad.tensor import Tensor, tensor

MOMENTUM, TURN, DOUBLE = 1 << 10, 2 << 10, 3 << 10  # what random numbers are for, beside depths
UNROLLED = 3  # levels, and so up to 8 leapfrog steps, in one recorded step


@dataclass(frozen=True)
class NUTS:
    """Trajectories of up to 2**max_depth leapfrog steps, as long as they go away from where they began.

    Args:
        max_depth: how often a trajectory may double.
        step_size: the first one; None to look for one. The warm-up adapts it.
        target: the mean probability of acceptance that the step size is adapted to.
    """

    max_depth: int = 10
    step_size: float | None = None
    target: float = 0.8

    def __post_init__(self) -> None:
        if not 1 <= self.max_depth <= 20:
            raise OptionError(f"inference.NUTS: max_depth is from 1 to 20, got {self.max_depth}")
        check(self.step_size, self.target, "NUTS")

    def sampler(self, chains: Chains, adaptation: Adaptation, key: Tensor) -> Sampler:
        return _Trees(self.max_depth, chains, adaptation, key)


def _purpose(place: int, depth: int = 0, level: int = 0) -> np.ndarray:
    """What random numbers are for, as one number: no two purposes of a draw have the same."""
    return np.array(place | (level * 32 + depth) << 20, np.uint32)


def _assign(states: Any, values: Any) -> None:
    for state, value in zip(tree.flatten(states)[0], tree.flatten(values)[0], strict=True):
        state.assign(value)


class _Trees:
    """The recorded steps of one run, and the tensors that they hand to one another."""

    def __init__(self, max_depth: int, chains: Chains, adaptation: Adaptation, key: Tensor) -> None:
        self.max_depth, self.chains, self.adaptation, self.key = max_depth, chains, adaptation, key
        self.count, self.size = chains.position.shape
        self.kind = chains.position.dtype
        rows, numbers, masks = self._rows, self._numbers, self._masks
        left, right = (Phase(rows(), rows(), numbers(), rows()) for _ in range(2))
        whole = tensor(np.zeros(self.count, np.int32))
        self.trunk = Trunk(left, right, rows(), numbers(), masks(), numbers(), whole, masks())
        self.energy = numbers()
        self.draw_key = tensor(np.zeros(2, np.uint32))
        # What is built beyond a block: its direction, where it goes on, the tree in hand, and those that wait for their
        # other half, by level.
        self.direction = tensor(np.ones((self.count, 1)), self.kind)
        self.front = Phase(rows(), rows(), numbers(), rows())
        self.trees: dict[int, Tree] = {}
        self._begin, self._grow, self._learn = jit(self._begun), jit(self._grown), jit(self._learned)
        self._turn, self._block, self._double = jit(self._turned), jit(self._built), jit(self._doubled)
        self._pairs: dict[int, Callable[..., Tensor]] = {}  # one recording a level, as for what puts a tree aside
        self._puts: dict[int, Callable[..., None]] = {}

    def _rows(self) -> Tensor:
        return tensor(np.zeros((self.count, self.size)), self.kind)

    def _numbers(self) -> Tensor:
        return tensor(np.zeros(self.count), self.kind)

    def _masks(self) -> Tensor:
        return tensor(np.zeros(self.count, bool))

    def _tree(self, level: int) -> Tree:
        """The memory of a tree of a level; that of the one in hand is level 0's."""
        if level not in self.trees:
            phases = [Phase(self._rows(), self._rows(), self._numbers(), self._rows()) for _ in range(3)]
            self.trees[level] = Tree(
                phases[0], phases[1], self._rows(), phases[2], self._numbers(), self._masks(), self._masks(),
                self._numbers(), tensor(np.zeros(self.count, np.int32)),
            )  # fmt: skip
            self._pairs[level] = jit(partial(self._paired, level))
            self._puts[level] = jit(partial(self._put_aside, level))
        return self.trees[level]

    # ---- a draw, told from the host
    def draw(self, number: int, collects: bool | None = None) -> Outcome:
        """The next draw; `collects` says that it is one of the warm-up, and whether scales are learned from it."""
        going, outcome = self._begin(np.array(number, np.uint32))
        for depth in range(1, self.max_depth):
            if not going.item():
                break
            going, outcome = self._grow(depth) if depth <= UNROLLED else self._grow_in_blocks(depth)
        if collects is not None:
            self._learn(np.array(collects))
        return outcome

    def _grow_in_blocks(self, depth: int) -> tuple[Tensor, Outcome]:
        self._tree(0)
        self._turn(_purpose(TURN + depth))
        blocks = 1 << depth - UNROLLED
        for number in range(blocks):
            lives = self._block(_purpose(number, depth))
            level, rest = UNROLLED, number
            while rest & 1:  # its other half waits: together they are a tree of the next level
                lives = self._pairs[level](_purpose(number, depth, level))
                level, rest = level + 1, rest >> 1
            if number == blocks - 1:
                break
            if not lives.item():  # nobody needs the rest; what waits still counts as walked
                for place in range(level, depth):
                    if rest >> place - level & 1:
                        self._pairs[place](_purpose(number, depth, place))
                break
            self._tree(level)
            self._puts[level]()
        return self._double(_purpose(DOUBLE + depth))

    # ---- recorded steps
    def _even(self, purpose: Any, count: int) -> Tensor:
        """Even numbers (C, count) of this draw, others for each purpose."""
        return random.uniform(random.fold_in(self.draw_key, purpose), (self.count, count), dtype=self.kind)

    def _begun(self, number: Tensor) -> tuple[Tensor, Outcome]:
        mass = self.adaptation.inverse_mass
        self.draw_key.assign(random.fold_in(self.key, number))
        begin = self.chains.phase(draw_momentum(self._even(MOMENTUM, 2 * self.size), mass))
        zeros = f.zeros_like(begin.log_density)
        never = zeros != 0
        self.energy.assign(energy(begin, mass))
        whole = zeros.astype("int32")
        _assign(self.trunk, Trunk(begin, begin, begin.momentum, zeros, never, zeros, whole, f.logical_not(never)))
        return self._grown(0)

    def _grown(self, depth: int) -> tuple[Tensor, Outcome]:
        even = self._even(depth, (1 << depth) + 1)  # a direction, a choice, and one for each two trees that are merged
        direction = self._direction(even[:, :1])
        front = either(direction[:, 0] > 0, self.trunk.right, self.trunk.left)
        return self._with(self._walked(depth, front, direction, even[:, 2:]), direction, even[:, 1])

    def _direction(self, even: Tensor) -> Tensor:
        return f.where(even < 0.5, -1.0, 1.0).astype(self.kind)

    def _walked(self, level: int, front: Phase, direction: Tensor, even: Tensor) -> Tree:
        """The tree of 2**level steps from `front` on."""
        mass = self.adaptation.inverse_mass
        step = f.exp(self.adaptation.log_step) * direction
        log_u = f.log(even)
        places = iter(range(even.shape[1]))

        def built(level: int, front: Phase) -> Tree:
            if level == 0:
                return self._leaf(leapfrog(self.chains.value_and_grad, front, step, mass, 1))
            half = built(level - 1, front)
            return merged(half, built(level - 1, half.last), log_u[:, next(places)], mass)

        return built(level, front)

    def _leaf(self, phase: Phase) -> Tree:
        gain = self.energy - energy(phase, self.adaptation.inverse_mass)
        lost = f.logical_not(gain > -FAR)
        steps = f.ones_like(gain).astype("int32")
        log_weight = f.where(lost, -math.inf, gain)
        return Tree(phase, phase, phase.momentum, phase, log_weight, lost, lost, probability(gain), steps)

    def _with(self, new: Tree, direction: Tensor, even: Tensor) -> tuple[Tensor, Outcome]:
        """The trunk with a tree of its own size at one of its ends; and whether any chain goes on."""
        trunk, right = self.trunk, direction[:, 0] > 0
        near, far = either(right, trunk.right, trunk.left), either(right, trunk.left, trunk.right)
        counts = trunk.going
        whole = counts & f.logical_not(new.spoilt)
        # By the ratio of the weights, not by the part of both that is new: that leads away from the beginning.
        self.chains.become(whole & (f.log(even) < new.log_weight - trunk.log_weight), new.chosen)
        turned = turns_back((far, near), trunk.total, (new.first, new.last), new.total, self.adaptation.inverse_mass)
        going = whole & f.logical_not(turned)
        diverged = trunk.diverged | (counts & new.diverged)
        accepted = trunk.accepted + f.where(counts, new.accepted, 0.0)
        steps = trunk.steps + f.where(counts, new.steps, 0)
        grown = Trunk(
            either(whole & f.logical_not(right), new.last, trunk.left),
            either(whole & right, new.last, trunk.right),
            f.where(whole.expand_dims(-1), trunk.total + new.total, trunk.total),
            f.where(whole, f.logaddexp(trunk.log_weight, new.log_weight), trunk.log_weight),
            diverged,
            accepted,
            steps,
            going,
        )
        _assign(trunk, grown)
        chains = self.chains
        return going.any(), Outcome(chains.position, chains.log_density, accepted / steps, diverged, steps)

    def _turned(self, purpose: Tensor) -> None:
        direction = self._direction(self._even(purpose, 1))
        _assign(self.front, either(direction[:, 0] > 0, self.trunk.right, self.trunk.left))
        self.direction.assign(direction)

    def _built(self, purpose: Tensor) -> Tensor:
        even = self._even(purpose, (1 << UNROLLED) - 1)
        found = self._walked(UNROLLED, self.front, self.direction, even)
        _assign(self.front, found.last)
        return self._taken_in_hand(found)

    def _taken_in_hand(self, found: Tree) -> Tensor:
        _assign(self.trees[0], found)
        return (self.trunk.going & f.logical_not(found.spoilt)).any()

    def _paired(self, level: int, purpose: Tensor) -> Tensor:
        log_u, mass = f.log(self._even(purpose, 1)[:, 0]), self.adaptation.inverse_mass
        return self._taken_in_hand(merged(self.trees[level], self.trees[0], log_u, mass))

    def _put_aside(self, level: int) -> None:
        _assign(self.trees[level], self.trees[0])

    def _doubled(self, purpose: Tensor) -> tuple[Tensor, Outcome]:
        return self._with(self.trees[0], self.direction, self._even(purpose, 1)[:, 0])

    def _learned(self, collects: Tensor) -> None:
        self.adaptation.learn_step(self.trunk.accepted / self.trunk.steps)
        self.adaptation.learn_scale(self.chains.position, collects)
