"""Recommend by matrix factorisation: embeddings of people and of films whose products are ratings.

    python examples/recommender.py

Each step looks up a few rows of two tables; its gradient adds to these rows, several times where a person comes twice.
Takes seconds, and ends in an assertion. Source: Koren, Bell and Volinsky (2009), doi:10.1109/MC.2009.263.
"""

from __future__ import annotations

import numpy as np

import vkgrad as vg
from vkgrad import nn

PEOPLE, FILMS, TASTES, EPOCHS, BATCH = 60, 40, 3, 25, 128


class Ratings(nn.Module):
    """People (B,) and films (B,) -> ratings (B,)."""

    def __init__(self, features: int) -> None:
        self.people, self.people_bias = nn.Embedding(PEOPLE, features), nn.Embedding(PEOPLE, 1)
        self.films, self.films_bias = nn.Embedding(FILMS, features), nn.Embedding(FILMS, 1)

    def forward(self, person: vg.Tensor, film: vg.Tensor) -> vg.Tensor:
        match = (self.people(person) * self.films(film)).sum(-1)
        return match + self.people_bias(person)[:, 0] + self.films_bias(film)[:, 0]


@vg.jit
def step(
    model: nn.Module, optimiser: vg.optim.Optimizer, person: vg.Tensor, film: vg.Tensor, rating: vg.Tensor
) -> vg.Tensor:
    loss, gradients = vg.value_and_grad(lambda m: nn.mse_loss(m(person, film), rating))(model)
    optimiser.update(model, gradients)
    return loss


def main() -> None:
    vg.manual_seed(0)
    generator = np.random.default_rng(0)
    tastes = generator.normal(size=(PEOPLE, TASTES)) @ generator.normal(size=(TASTES, FILMS)) / np.sqrt(TASTES)
    noisy = (tastes + generator.normal(scale=0.1, size=tastes.shape)).astype(np.float32)
    order = generator.permutation(PEOPLE * FILMS)
    known, hidden = np.split(order, [int(0.7 * len(order))])  # the rest is asked for at the end

    model = Ratings(TASTES)
    optimiser = vg.optim.Adam(model, lr=0.03)
    person, film = (part.astype(np.int32) for part in np.divmod(known, FILMS))
    loader = vg.data.DataLoader(person, film, noisy[person, film], batch_size=BATCH, drop_last=True)
    for epoch in range(EPOCHS):
        for batch in loader:
            loss = step(model, optimiser, *batch)
        if epoch % 5 == 0:
            print(f"epoch {epoch + 1:2}: loss of the last batch {float(loss):.4f}")

    # The gradient of a look-up reaches the rows that were looked up, once for each time, and no other.
    gradient = vg.grad(lambda m: m.people(np.array([3, 3, 5], np.int32)).sum())(model)["people.weight"].numpy()
    assert gradient[[3, 5], 0].tolist() == [2, 1] and np.count_nonzero(gradient) == 2 * TASTES

    person, film = (part.astype(np.int32) for part in np.divmod(hidden, FILMS))
    error = float(nn.mse_loss(model(person, film), noisy[person, film]))
    print(
        f"mean square error of {len(hidden)} ratings it never saw: {error:.3f}; of guessing the mean {noisy.var():.3f}"
    )
    assert error < 0.15 * noisy.var(), "the tastes were not learned"


if __name__ == "__main__":
    main()
