"""A transformer that reads a text character by character and then writes on its own.

    python examples/transformer.py

Takes seconds, and ends in an assertion. The text is the first verses of a nursery rhyme, which a model this small
learns by heart.
"""

from __future__ import annotations

import numpy as np

import vkgrad as vg
from vkgrad import nn

TEXT = """This is the house that Jack built.
This is the malt that lay in the house that Jack built.
This is the rat that ate the malt that lay in the house that Jack built.
This is the cat that killed the rat that ate the malt that lay in the house that Jack built.
"""
LETTERS = sorted(set(TEXT))
CONTEXT, FEATURES, BATCH, STEPS = 16, 32, 16, 250


class Writer(nn.Module):
    """Tokens (B, T) -> logits of the token that follows each (B, T, letters)."""

    def __init__(self) -> None:
        self.letter = nn.Embedding(len(LETTERS), FEATURES)
        self.place = nn.Embedding(CONTEXT, FEATURES)
        layer = nn.TransformerEncoderLayer(
            FEATURES, nhead=4, dim_feedforward=4 * FEATURES, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, num_layers=1, norm=nn.LayerNorm(FEATURES))
        self.head = nn.Linear(FEATURES, len(LETTERS))

    def forward(self, tokens: vg.Tensor) -> vg.Tensor:
        x = self.letter(tokens) + self.place(vg.arange(tokens.shape[1]))
        future = vg.triu(vg.ones((CONTEXT, CONTEXT), dtype=vg.bool_), 1)  # true: may not be looked at
        return self.head(self.layers(x, mask=future))


@vg.jit
def step(model: nn.Module, optimiser: vg.optim.Optimizer, tokens: vg.Tensor) -> vg.Tensor:
    """Learn from windows (B, T + 1): every token but the first is a question."""

    def loss_of(model: nn.Module) -> vg.Tensor:
        return nn.cross_entropy(model(tokens[:, :-1]).reshape(-1, len(LETTERS)), tokens[:, 1:].reshape(-1))

    loss, gradients = vg.value_and_grad(loss_of)(model)
    optimiser.update(model, gradients)
    return loss


@vg.jit
def following(model: nn.Module, tokens: vg.Tensor) -> vg.Tensor:
    """The likeliest token behind the last one of tokens (T,)."""
    return vg.argmax(model(tokens[None])[0, -1])


def write(model: nn.Module, beginning: str, length: int) -> str:
    """Continue a text of at least CONTEXT letters; every call has the same shape, so it is recorded once."""
    tokens = [LETTERS.index(letter) for letter in beginning]
    while len(tokens) < length:
        tokens.append(int(following(model, np.array(tokens[-CONTEXT:], np.int32))))
    return "".join(LETTERS[token] for token in tokens)


def main() -> None:
    vg.manual_seed(0)
    text = np.array([LETTERS.index(letter) for letter in TEXT], np.int32)
    generator = np.random.default_rng(0)
    model = Writer()
    optimiser = vg.optim.AdamW(model, lr=5e-3)
    for number in range(STEPS):
        starts = generator.integers(0, len(text) - CONTEXT, (BATCH, 1))
        loss = step(model, optimiser, text[starts + np.arange(CONTEXT + 1)])
        if number % 50 == 0:
            print(f"step {number:3}: loss {float(loss):.3f}")

    model.eval()
    written = write(model, TEXT[:CONTEXT], 120)
    print(written)
    # Behind "that Jack built.\n" and "the " there are several ways to go on, so not every letter can be known: but what
    # is written must be made of the rhyme's words.
    words = written.split()[:-1]
    assert set(words) <= set(TEXT.split()), "the model does not spell"
    assert float(loss) < 0.5, "the model did not learn the rhyme"


if __name__ == "__main__":
    main()
