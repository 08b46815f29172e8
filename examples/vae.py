"""A variational autoencoder of handwritten digits: learn a distribution of images, then draw new ones from it.

    python examples/vae.py

Needs scikit-learn for its digits. Takes seconds, and ends in an assertion.
Source: Kingma and Welling (2013), arXiv:1312.6114.
"""

from __future__ import annotations

import numpy as np

import vkgrad as vg
from vkgrad import nn

EPOCHS, BATCH, PIXELS, LATENT = 10, 64, 64, 4


class VAE(nn.Module):
    """Pixels (B, 64) of 0 to 1 -> logits of the same (B, 64), by way of a normal distribution over (B, LATENT)."""

    def __init__(self) -> None:
        self.encoder = nn.Sequential(nn.Linear(PIXELS, 64), nn.ReLU(), nn.Linear(64, 2 * LATENT))
        self.decoder = nn.Sequential(nn.Linear(LATENT, 64), nn.ReLU(), nn.Linear(64, PIXELS))

    def forward(self, x: vg.Tensor, key: vg.Tensor) -> tuple[vg.Tensor, vg.Tensor, vg.Tensor]:
        mean, log_variance = vg.split(self.encoder(x), 2, axis=1)
        # The sample is a function of the parameters and of noise that does not depend on them, so it has a gradient.
        latent = mean + vg.exp(0.5 * log_variance) * vg.random.normal(key, mean.shape)
        return self.decoder(latent), mean, log_variance


def loss_of(model: VAE, x: vg.Tensor, key: vg.Tensor) -> vg.Tensor:
    """The negative evidence lower bound of a mean image."""
    logits, mean, log_variance = model(x, key)
    reconstruction = nn.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    divergence = 0.5 * (mean**2 + vg.exp(log_variance) - 1 - log_variance).sum()
    return (reconstruction + divergence) / len(x)


@vg.jit
def step(model: VAE, optimiser: vg.optim.Optimizer, x: vg.Tensor, key: vg.Tensor) -> vg.Tensor:
    loss, gradients = vg.value_and_grad(loss_of)(model, x, key)
    optimiser.update(model, gradients)
    return loss


def main() -> None:
    vg.manual_seed(0)
    data = vg.data.digits()
    images = data.train.images.reshape(-1, PIXELS).astype(np.float32) / 255
    model = VAE()
    optimiser = vg.optim.Adam(model, lr=5e-3)
    loader = vg.data.DataLoader(images, batch_size=BATCH, drop_last=True)
    key = vg.random.key(0)
    losses: list[float] = []
    for epoch in range(EPOCHS):
        for number, (x,) in enumerate(loader):
            losses.append(float(step(model, optimiser, x, vg.random.fold_in(key, epoch * len(loader) + number))))
        print(f"epoch {epoch + 1:2}: {np.mean(losses[-len(loader) :]):.2f} nats an image")

    drawn = vg.sigmoid(model.decoder(vg.random.normal(vg.random.key(1), (500, LATENT)))).numpy()
    for row in drawn[:6].reshape(6, 8, 8).swapaxes(0, 1).reshape(8, -1):
        print("".join(" .:-=+*#%@"[int(9.99 * value)] for value in row))
    nearest = ((drawn[:, None] - images[None, :400]) ** 2).sum(-1).min(1).mean()
    noise = ((np.random.default_rng(0).permuted(images[:500], axis=1)[:, None] - images[None, :400]) ** 2).sum(-1)
    print(f"squared distance to the nearest real digit: {nearest:.2f}; of scrambled digits {noise.min(1).mean():.2f}")
    assert np.mean(losses[-len(loader) :]) < 0.7 * losses[0], "the bound did not improve"
    assert nearest < 0.5 * noise.min(1).mean(), "what is drawn does not look like digits"


if __name__ == "__main__":
    main()
