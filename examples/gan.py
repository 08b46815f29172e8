"""Two networks that play against each other: one makes points, the other tells them from real ones.

    python examples/gan.py

Real points lie on a circle. Takes seconds, and ends in an assertion.
Source: Goodfellow et al. (2014), arXiv:1406.2661, with the loss of section 3 for the generator.
"""

from __future__ import annotations

import math

import vkgrad as vg
from vkgrad import nn

STEPS, BATCH, NOISE, WIDTH = 450, 96, 4, 32


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, WIDTH), nn.LeakyReLU(0.2), nn.Linear(WIDTH, WIDTH), nn.LeakyReLU(0.2),
        nn.Linear(WIDTH, outputs),
    )  # fmt: skip


def circle(key: vg.Tensor, count: int) -> vg.Tensor:
    """Points (count, 2) near the unit circle."""
    angle_key, noise_key = vg.random.split(key)
    angle = vg.random.uniform(angle_key, (count,)) * (2 * math.pi)
    return vg.stack([vg.cos(angle), vg.sin(angle)], axis=1) + 0.05 * vg.random.normal(noise_key, (count, 2))


@vg.jit
def step(
    generator: nn.Module,
    discriminator: nn.Module,
    generating: vg.optim.Optimizer,
    discriminating: vg.optim.Optimizer,
    key: vg.Tensor,
) -> tuple[vg.Tensor, vg.Tensor]:
    """One move of each player; both, with their updates, are one submission."""
    real_key, noise_key = vg.random.split(key)
    real, noise = circle(real_key, BATCH), vg.random.normal(noise_key, (BATCH, NOISE))

    def mistakes(discriminator: nn.Module) -> vg.Tensor:
        made = vg.stop_gradient(generator(noise))
        return (vg.softplus(-discriminator(real)) + vg.softplus(discriminator(made))).mean()

    def unmasked(generator: nn.Module) -> vg.Tensor:
        return vg.softplus(-discriminator(generator(noise))).mean()

    found, gradients = vg.value_and_grad(mistakes)(discriminator)
    discriminating.update(discriminator, gradients)
    fooled, gradients = vg.value_and_grad(unmasked)(generator)
    generating.update(generator, gradients)
    return found, fooled


def main() -> None:
    vg.manual_seed(0)
    generator, discriminator = mlp(NOISE, 2), mlp(2, 1)
    generating = vg.optim.Adam(generator, lr=1e-3, betas=(0.5, 0.99))
    discriminating = vg.optim.Adam(discriminator, lr=2e-3, betas=(0.5, 0.99))
    for number in range(STEPS):
        key = vg.random.fold_in(vg.random.key(0), number)
        losses = step(generator, discriminator, generating, discriminating, key)
        if number % 100 == 0:
            print(f"step {number:3}: discriminator {float(losses[0]):.3f}, generator {float(losses[1]):.3f}")

    made = generator(vg.random.normal(vg.random.key(1), (1000, NOISE)))
    radius = vg.norm(made, axis=1)
    octant = vg.floor((vg.atan2(made[:, 1], made[:, 0]) / math.pi + 1) * 4).astype(vg.int32) % 8
    shares = vg.one_hot(octant, 8).mean(axis=0).numpy()
    print(f"radius {float(radius.mean()):.3f} ± {float(radius.std()):.3f}; shares of the octants {shares.round(2)}")
    assert abs(float(radius.mean()) - 1) < 0.1 and float(radius.std()) < 0.35, "the points do not lie on the circle"
    assert shares.min() > 0.02, "a part of the circle is missing"


if __name__ == "__main__":
    main()
