"""The two models trained by hand in float64 NumPy: the losses that every contender must reproduce before it is timed.

Written from the definitions, forward and backward, and tested against finite differences. It must not know vkgrad.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from vkgrad.bench.cases import LEARNING_RATE, Array, Data

CHUNK = 256  # images at a time: a float64 LeNet-5 of 2048 would need gigabytes

# Gradients of the summed (not averaged) loss for one chunk: (weights, images, labels) -> (loss, gradients)
Pass = Callable[[Sequence[Array], Array, Array], tuple[float, list[Array]]]


def losses(model: str, data: Data, batches: Sequence[int], learning_rate: float = LEARNING_RATE) -> list[float]:
    """The loss of each step of gradient descent over `batches`, before that step's update."""
    weights = [weight.astype(np.float64) for weight in data.weights]
    out = []
    for number in batches:
        images, labels = data.images[number], data.labels[number]
        total, gradients = 0.0, [np.zeros_like(weight) for weight in weights]
        for start in range(0, len(labels), CHUNK):
            piece = slice(start, start + CHUNK)
            loss, parts = PASSES[model](weights, images[piece].astype(np.float64), labels[piece])
            total += loss
            for gradient, part in zip(gradients, parts, strict=True):
                gradient += part
        for weight, gradient in zip(weights, gradients, strict=True):
            weight -= learning_rate / len(labels) * gradient
        out.append(total / len(labels))
    return out


def cross_entropy(logits: Array, labels: Array) -> tuple[float, Array]:
    """The summed loss and its gradient: softmax minus one at the label."""
    shifted = logits - logits.max(1, keepdims=True)
    logarithm = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    rows = np.arange(len(labels))
    gradient = np.exp(logarithm)
    gradient[rows, labels] -= 1
    return float(-logarithm[rows, labels].sum()), gradient


def mlp(weights: Sequence[Array], x: Array, labels: Array) -> tuple[float, list[Array]]:
    """784 - 128 - ReLU - 10."""
    w1, b1, w2, b2 = weights
    before = x @ w1.T + b1
    hidden = np.maximum(before, 0)
    loss, g = cross_entropy(hidden @ w2.T + b2, labels)
    g_before = (g @ w2) * (before > 0)
    return loss, [g_before.T @ x, g_before.sum(0), g.T @ hidden, g.sum(0)]


def windows(x: Array, size: int) -> Array:
    """Every size × size window as a row: (B, C, H, W) -> (B, H', W', C * size * size)."""
    view = np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))
    batch, channels, height, width = view.shape[:4]
    return view.transpose(0, 2, 3, 1, 4, 5).reshape(batch, height, width, channels * size * size)


def convolve(x: Array, weight: Array, bias: Array) -> tuple[Array, Array]:
    """The convolution of x, and the windows it was made of."""
    columns = windows(x, weight.shape[-1])
    return (columns @ weight.reshape(len(weight), -1).T + bias).transpose(0, 3, 1, 2), columns


def convolution_gradients(g: Array, columns: Array, weight: Array) -> tuple[Array, Array]:
    """Gradients of a convolution by its weight and its bias."""
    by_place = g.transpose(0, 2, 3, 1).reshape(-1, g.shape[1])
    return (by_place.T @ columns.reshape(len(by_place), -1)).reshape(weight.shape), by_place.sum(0)


def convolution_input_gradient(g: Array, weight: Array) -> Array:
    """The full correlation of the gradient with the weight, flipped in both directions."""
    size = weight.shape[-1]
    padded = np.pad(g, ((0, 0), (0, 0), (size - 1, size - 1), (size - 1, size - 1)))
    flipped = weight[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
    return convolve(padded, flipped, np.zeros(len(flipped)))[0]


def pool(x: Array) -> tuple[Array, Array]:
    """The largest of each 2 × 2, and which it was: the first of equals, in rows."""
    batch, channels, height, width = x.shape
    cells = x.reshape(batch, channels, height // 2, 2, width // 2, 2).transpose(0, 1, 2, 4, 3, 5)
    cells = cells.reshape(batch, channels, height // 2, width // 2, 4)
    return cells.max(-1), cells.argmax(-1)


def pool_gradient(g: Array, chosen: Array) -> Array:
    batch, channels, height, width = g.shape
    cells = np.zeros((*g.shape, 4))
    np.put_along_axis(cells, chosen[..., None], g[..., None], -1)
    cells = cells.reshape(batch, channels, height, width, 2, 2).transpose(0, 1, 2, 4, 3, 5)
    return cells.reshape(batch, channels, 2 * height, 2 * width)


def lenet(weights: Sequence[Array], x: Array, labels: Array) -> tuple[float, list[Array]]:
    """conv 5×5 to 6 (padding 2), ReLU, pool 2, conv 5×5 to 16, ReLU, pool 2, 400 - 120 - 84 - 10 with ReLU between."""
    k1, c1, k2, c2, w1, b1, w2, b2, w3, b3 = weights
    first, columns1 = convolve(np.pad(x, ((0, 0), (0, 0), (2, 2), (2, 2))), k1, c1)
    pooled1, chosen1 = pool(np.maximum(first, 0))
    second, columns2 = convolve(pooled1, k2, c2)
    pooled2, chosen2 = pool(np.maximum(second, 0))
    flat = pooled2.reshape(len(x), -1)
    third = flat @ w1.T + b1
    hidden3 = np.maximum(third, 0)
    fourth = hidden3 @ w2.T + b2
    hidden4 = np.maximum(fourth, 0)
    loss, g = cross_entropy(hidden4 @ w3.T + b3, labels)

    g4 = (g @ w3) * (fourth > 0)
    g3 = (g4 @ w2) * (third > 0)
    g2 = pool_gradient((g3 @ w1).reshape(pooled2.shape), chosen2) * (second > 0)
    g1 = pool_gradient(convolution_input_gradient(g2, k2), chosen1) * (first > 0)
    return loss, [
        *convolution_gradients(g1, columns1, k1),
        *convolution_gradients(g2, columns2, k2),
        g3.T @ flat, g3.sum(0), g4.T @ hidden3, g4.sum(0), g.T @ hidden4, g.sum(0),
    ]  # fmt: skip


PASSES: dict[str, Pass] = {"mlp": mlp, "lenet": lenet}
