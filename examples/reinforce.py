"""Reinforcement learning by policy gradients: an agent learns to cross a grid with a pit in its way.

    python examples/reinforce.py

The grid is an array and a move is arithmetic, so many episodes are played side by side *inside* the recorded step:
playing, gradient and update are one submission. Takes seconds, and ends in an assertion.
Source: Williams (1992), doi:10.1007/BF00992696; rewards to go, with the mean of the other episodes as baseline.
"""

from __future__ import annotations

import numpy as np

import vkgrad as vg

SIZE, LENGTH, EPISODES, STEPS = 4, 10, 64, 120
GOAL = SIZE * SIZE - 1
PITS = (5, 7, 11, 12)
MOVES = vg.tensor([[-1, 0], [1, 0], [0, -1], [0, 1]])  # up, down, left, right
REWARD = np.full(SIZE * SIZE, -0.05, np.float32)  # of entering a cell; time is money
REWARD[GOAL], REWARD[list(PITS)] = 1.0, -1.0
OVER = REWARD.astype(bool) & (np.abs(REWARD) == 1)


def play(logits: vg.Tensor, key: vg.Tensor) -> tuple[vg.Tensor, vg.Tensor, vg.Tensor]:
    """Play EPISODES games from the corner by a table of logits (cells, 4).

    Returns log probabilities of the moves taken, rewards, and whether the game was still on, each (LENGTH, EPISODES).
    """
    cell = vg.zeros((EPISODES,), dtype=vg.int32)
    alive = vg.ones((EPISODES,))
    chances, rewards, going = [], [], []
    for time in range(LENGTH):
        here = vg.log_softmax(logits[cell], axis=-1)
        move = vg.random.categorical(vg.random.fold_in(key, time), vg.stop_gradient(here))
        chances.append(vg.take_along_axis(here, move[:, None], axis=1)[:, 0])
        row, column = cell // SIZE + MOVES[move, 0], cell % SIZE + MOVES[move, 1]
        cell = vg.clip(row, 0, SIZE - 1) * SIZE + vg.clip(column, 0, SIZE - 1)
        rewards.append(alive * vg.tensor(REWARD)[cell])
        going.append(alive)
        alive = alive * (1 - vg.tensor(OVER.astype(np.float32))[cell])
    return vg.stack(chances), vg.stack(rewards), vg.stack(going)


def loss_of(logits: vg.Tensor, key: vg.Tensor) -> tuple[vg.Tensor, vg.Tensor]:
    chances, rewards, going = play(logits, key)
    to_go = vg.flip(vg.cumsum(vg.flip(rewards, axis=0), axis=0), axis=0)
    advantage = vg.stop_gradient((to_go - to_go.mean(axis=1, keepdims=True)) * going)
    return -(chances * advantage).sum() / EPISODES, rewards.sum() / EPISODES


def main() -> None:
    logits = vg.zeros((SIZE * SIZE, 4))
    optimiser = vg.optim.Adam([logits], lr=0.1)

    @vg.jit
    def step(key: vg.Tensor) -> vg.Tensor:
        gradient, earned = vg.grad(loss_of, has_aux=True)(logits, key)
        optimiser.update([logits], [gradient])
        return earned

    for number in range(STEPS):
        earned = step(vg.random.fold_in(vg.random.key(0), number))
        if number % 20 == 0:
            print(f"step {number:3}: mean return {float(earned):+.3f}")
    print(f"step {STEPS}: mean return {float(earned):+.3f}; the best there is {1 - 5 * 0.05:+.3f}")
    arrows = "↑↓←→"
    for row in range(SIZE):
        cells = range(row * SIZE, (row + 1) * SIZE)
        best = vg.argmax(logits, axis=1).numpy()
        print(" ".join("G" if c == GOAL else "o" if c in PITS else arrows[best[c]] for c in cells))
    assert float(earned) > 0.6, "the agent did not learn to cross"


if __name__ == "__main__":
    main()
