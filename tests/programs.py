"""Random programs over the public functions, each with its meaning in NumPy, for tests that run them in many ways.

A program is drawn once, from a seed, beside its NumPy values in double precision, so that shapes fit and sizes stay
near 1. Integers and masks come from integer inputs only: what is discontinuous would otherwise differ by rounding.
"""

# ruff: noqa: E501  a step and its meaning side by side, on one line
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import vkgrad as vg

LARGEST = 400  # elements of one value


@dataclass
class Step:
    """`vkgrad` and `numpy` compute the same from the values numbered `sources`."""

    name: str
    sources: tuple[int, ...]
    vkgrad: Callable[..., vg.Tensor]
    numpy: Callable[..., np.ndarray]


@dataclass
class Program:
    """inputs   float and integer arrays; values[i] for i < len(inputs) are these
    steps    each makes the next value
    values   what NumPy made of them, in double precision
    """

    inputs: list[np.ndarray]
    steps: list[Step] = field(default_factory=list)
    values: list[np.ndarray] = field(default_factory=list)

    def run(self, inputs: Sequence[Any], after: Callable[[list[Any]], None] = lambda values: None) -> list[vg.Tensor]:
        """The value of every step; `after` is called with all values so far, after each."""
        values = list(inputs)
        for step in self.steps:
            values.append(step.vkgrad(*(values[i] for i in step.sources)))
            after(values)
        return values[len(self.inputs) :]

    def run_numpy(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        values = list(inputs)
        with np.errstate(all="ignore"):
            for step in self.steps:
                values.append(np.asarray(step.numpy(*(values[i] for i in step.sources))))
        return values[len(self.inputs) :]

    def text(self) -> str:
        head = [f"v{i} = input{list(a.shape)} {a.dtype}" for i, a in enumerate(self.inputs)]
        body = [
            f"v{i} = {s.name}({', '.join(f'v{j}' for j in s.sources)})  {list(self.values[i].shape)}"
            for i, s in enumerate(self.steps, len(self.inputs))
        ]
        return "\n".join([*head, *body])


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def windows(x: np.ndarray, size: int) -> np.ndarray:
    return np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))


class Drawer:
    def __init__(self, seed: int, smooth: bool, arithmetic: bool) -> None:
        """smooth: every step has a derivative; arithmetic: nothing transcendental."""
        self.draw = np.random.Generator(np.random.Philox(seed))
        self.smooth, self.arithmetic = smooth, arithmetic

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.draw.integers(len(choices)))]

    def shape(self) -> tuple[int, ...]:
        return tuple(int(e) for e in self.draw.choice([1, 2, 3, 4, 5, 7], int(self.draw.integers(0, 4))))

    def program(self, length: int) -> Program:
        inputs = [self.draw.normal(size=self.shape() if i else (4, 5)) for i in range(3)]
        inputs.append(self.draw.integers(-9, 10, size=(3, 4)).astype("i4"))
        program = Program(inputs, values=list(inputs))
        while len(program.steps) < length:
            step = self.step(program.values)
            if step is None:
                continue
            with np.errstate(all="ignore"):
                value = np.asarray(step.numpy(*(program.values[i] for i in step.sources)))
            if value.size > LARGEST or not np.isfinite(value).all():
                continue
            program.steps.append(step)
            program.values.append(value)
            if value.dtype.kind == "f" and value.size and np.abs(value).max() > 4:
                program.steps.append(self._scaled(len(program.values) - 1, float(1 / np.abs(value).max())))
                program.values.append(value / np.abs(value).max())
        return program

    def step(self, values: list[np.ndarray]) -> Step | None:
        floats = [i for i, v in enumerate(values) if v.dtype.kind == "f"]
        ints = [i for i, v in enumerate(values) if v.dtype.kind == "i"]
        i = int(self.draw.choice(floats[-6:] if self.draw.random() < 0.8 else floats))
        x = values[i]
        kind = self.pick("unary", "unary", "binary", "binary", "view", "view", "view", "reduce", "reduce", "mix", "int")
        return getattr(self, f"_{kind}")(values, floats, ints, i, x)

    def _unary(self, values: Any, floats: Any, ints: Any, i: int, x: np.ndarray) -> Step:
        c = round(float(self.draw.normal()), 3)
        table: list[tuple[str, Any, Any]] = [
            ("square", lambda x: x * x, lambda x: x * x),
            ("negate", lambda x: -x, lambda x: -x),
            ("axpb", lambda x: 2.0 - x * c, lambda x: 2.0 - x * c),
            ("over", lambda x: x / (x * x + 1), lambda x: x / (x * x + 1)),
        ]
        if not self.arithmetic:
            table += [
                ("tanh", vg.tanh, np.tanh),
                ("sin", vg.sin, np.sin),
                ("exp", lambda x: vg.exp(x * 0.3), lambda x: np.exp(x * 0.3)),
                ("sigmoid", vg.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
                ("root", lambda x: vg.sqrt(x * x + 0.1), lambda x: np.sqrt(x * x + 0.1)),
                ("log", lambda x: vg.log(x * x + 0.5), lambda x: np.log(x * x + 0.5)),
            ]
        if not self.smooth:
            table += [
                ("relu", vg.relu, lambda x: np.maximum(x, 0)),
                ("abs", abs, np.abs),
                ("clip", lambda x: vg.clip(x, -0.5, c), lambda x: np.minimum(np.maximum(x, -0.5), c)),
            ]
        return self._made(self.pick(*table), (i,))

    def _binary(self, values: Any, floats: Any, ints: Any, i: int, x: np.ndarray) -> Step | None:
        j = int(self.draw.choice(floats))
        try:
            np.broadcast_shapes(x.shape, values[j].shape)
        except ValueError:
            return None
        table: list[tuple[str, Any, Any]] = [
            ("add", lambda x, y: x + y, lambda x, y: x + y),
            ("subtract", lambda x, y: x - y, lambda x, y: x - y),
            ("multiply", lambda x, y: x * y, lambda x, y: x * y),
            ("divide", lambda x, y: x / (y * y + 0.5), lambda x, y: x / (y * y + 0.5)),
        ]
        if not self.smooth:
            table += [("maximum", vg.maximum, np.maximum), ("minimum", vg.minimum, np.minimum)]
        return self._made(self.pick(*table), (i, j))

    def _view(self, values: Any, floats: Any, ints: Any, i: int, x: np.ndarray) -> Step | None:
        order = tuple(int(a) for a in self.draw.permutation(x.ndim))
        index = tuple(slice(None, None, int(self.pick(1, -1, 2, -2, -1))) if e > 1 else slice(None) for e in x.shape)
        widths = [(int(self.draw.integers(0, 2)), int(self.draw.integers(0, 3))) for _ in x.shape]
        fill = float(self.pick(0.0, 1.5))
        choice = self.pick("permute", "slice", "pad", "reshape", "expand", "join", "stack", "at", "diagonal", "cut")
        if choice == "permute":
            return self._made(
                (f"permute{order}", lambda x: vg.permute_dims(x, order), lambda x: x.transpose(order)), (i,)
            )
        if choice == "slice":
            return self._made((f"slice{index}", lambda x: x[index], lambda x: x[index]), (i,))
        if choice == "cut" and x.ndim and x.shape[0] > 1:
            return self._made(("cut", lambda x: x[1:], lambda x: x[1:]), (i,))
        if choice == "pad" and x.ndim:
            return self._made(
                (f"pad{widths}", lambda x: vg.pad(x, widths, fill), lambda x: np.pad(x, widths, constant_values=fill)),
                (i,),
            )  # fmt: skip
        if choice == "reshape":
            shapes = [(x.size,), (x.size, 1), (1, x.size)]
            shapes += [(x.size // k, k) for k in (2, 3, 5) if x.size % k == 0]
            shape = self.pick(*shapes)
            return self._made((f"reshape{shape}", lambda x: x.reshape(shape), lambda x: x.reshape(shape)), (i,))
        if choice == "expand" and x.ndim < 4:
            shape = (3, *x.shape)
            return self._made(
                ("expand", lambda x: vg.broadcast_to(x, shape), lambda x: np.broadcast_to(x, shape)), (i,)
            )
        if choice in ("join", "stack"):
            other = [j for j in floats if values[j].shape == x.shape]
            j, axis = int(self.draw.choice(other)), 0
            if choice == "stack" and x.ndim < 4:
                axis = int(self.draw.integers(-x.ndim - 1, x.ndim + 1))
                return self._made((f"stack{axis}", lambda x, y: vg.stack([x, y], axis), lambda x, y: np.stack([x, y], axis)), (i, j))  # fmt: skip
            if x.ndim:
                axis = int(self.draw.integers(-x.ndim, x.ndim))
                return self._made((f"concat{axis}", lambda x, y: vg.concat([x, y, x], axis), lambda x, y: np.concatenate([x, y, x], axis)), (i, j))  # fmt: skip
        if choice == "at" and x.ndim and x.shape[0] > 1:

            def changed(x: np.ndarray) -> np.ndarray:
                out = x.copy()
                out[::2] += 1.25
                return out

            return self._made(("at", lambda x: x.at[::2].add(1.25), changed), (i,))
        if choice == "diagonal" and x.ndim == 2 and min(x.shape) > 1:
            return self._made(("diagonal", vg.diagonal, np.diagonal), (i,))
        return None

    def _reduce(self, values: Any, floats: Any, ints: Any, i: int, x: np.ndarray) -> Step | None:
        if not x.ndim or not x.size:
            return None
        axis = self.pick(None, *range(-x.ndim, x.ndim))
        keep = bool(self.pick(True, True, False))
        table: list[tuple[str, Any, Any]] = [
            ("sum", lambda x: vg.sum(x, axis, keepdims=keep), lambda x: x.sum(axis, keepdims=keep)),
            ("mean", lambda x: vg.mean(x, axis, keepdims=keep), lambda x: x.mean(axis, keepdims=keep)),
            ("var", lambda x: vg.var(x, axis, keepdims=keep), lambda x: x.var(axis, keepdims=keep)),
            ("centre", lambda x: x - x.mean(axis, keepdims=True), lambda x: x - x.mean(axis, keepdims=True)),
        ]
        if not self.smooth:
            table += [
                ("max", lambda x: vg.max(x, axis, keepdims=keep), lambda x: x.max(axis, keepdims=keep)),
                ("min", lambda x: vg.min(x, axis, keepdims=keep), lambda x: x.min(axis, keepdims=keep)),
                ("drop", lambda x: x - x.max(axis, keepdims=True), lambda x: x - x.max(axis, keepdims=True)),
            ]
        last = -1 if axis is None else axis
        if not self.arithmetic:
            table += [
                ("softmax", lambda x: vg.softmax(x, last), lambda x: softmax(x, last)),
                ("logsumexp", lambda x: vg.logsumexp(x, last), lambda x: np.log(np.exp(x).sum(last))),
                ("norm", lambda x: (x - x.mean(last, keepdims=True)) / vg.sqrt(x.var(last, keepdims=True) + 0.1),
                 lambda x: (x - x.mean(last, keepdims=True)) / np.sqrt(x.var(last, keepdims=True) + 0.1)),
            ]  # fmt: skip
        name, ours, theirs = self.pick(*table)
        return self._made((f"{name}[{axis}]{'k' * keep}", ours, theirs), (i,))

    def _mix(self, values: Any, floats: Any, ints: Any, i: int, x: np.ndarray) -> Step | None:
        choice = self.pick("gram", "product", "product", "conv", "pool", "take")
        if choice == "gram" and x.ndim >= 2:
            return self._made(("gram", lambda x: x @ x.mT, lambda x: x @ np.swapaxes(x, -1, -2)), (i,))
        if choice == "product":
            fits = [j for j in floats if values[j].ndim == 2 and x.ndim >= 1 and values[j].shape[0] == x.shape[-1]]
            if fits:
                return self._made(("matmul", lambda x, y: x @ y, lambda x, y: x @ y), (i, int(self.draw.choice(fits))))
        if choice in ("conv", "pool") and x.size >= 16 and x.ndim:
            side = 4 if x.size >= 16 else 3
            n = x.size // (side * side)
            count = n * side * side
            image = lambda x: x.reshape(-1)[:count].reshape(1, n, side, side)  # noqa: E731
            if (choice == "pool" and self.smooth) or self.pick(True, False):
                return self._made(("avg_pool", lambda x: vg.avg_pool2d(image(x), 2, stride=1), lambda x: windows(image(x), 2).mean((-1, -2))), (i,))  # fmt: skip
            if choice == "pool":
                return self._made(("max_pool", lambda x: vg.max_pool2d(image(x), 3, stride=1), lambda x: windows(image(x), 3).max((-1, -2))), (i,))  # fmt: skip
            kernel = self.draw.normal(size=(2, n, 3, 3))
            padded = lambda x: np.pad(image(x), ((0, 0), (0, 0), (1, 1), (1, 1)))  # noqa: E731
            return self._made(("conv", lambda x: vg.conv2d(image(x), vg.tensor(kernel).astype(x.dtype), padding=1), lambda x: np.einsum("nchwij,ocij->nohw", windows(padded(x), 3), kernel)), (i,))  # fmt: skip
        if choice == "take" and x.ndim:
            axis = int(self.draw.integers(x.ndim))
            where = self.draw.integers(0, x.shape[axis], size=3).astype("i4")
            return self._made((f"take{axis}", lambda x: vg.take(x, vg.tensor(where), axis), lambda x: np.take(x, where, axis)), (i,))  # fmt: skip
        return None

    def _int(self, values: Any, floats: Any, ints: Any, i: int, x: np.ndarray) -> Step | None:
        k = int(self.draw.choice(ints))
        n = values[k]
        if self.pick(True, False):  # back to floats, through a mask or a conversion
            try:
                np.broadcast_shapes(x.shape, n.shape)
            except ValueError:
                return self._made(("to float", lambda n, x: n.astype(x.dtype) / 7, lambda n, x: n / 7), (k, i))
            return self._made(("where", lambda n, x: vg.where((n % 3 == 1) | ~(n < 2), x, -0.5), lambda n, x: np.where((n % 3 == 1) | ~(n < 2), x, -0.5)), (k, i))  # fmt: skip
        axis = int(self.draw.integers(n.ndim)) if n.ndim else None
        return self._made(
            self.pick(
                ("int arithmetic", lambda n: (n * 3 - 7) // 2 % 11, lambda n: (n * 3 - 7) // 2 % 11),
                ("int bits", lambda n: ((n & 12) ^ 5) | (n >> 1), lambda n: ((n & 12) ^ 5) | (n >> 1)),
                ("int flip", lambda n: vg.flip(n), lambda n: np.flip(n)),
                ("argmax", lambda n: vg.argmax(n, axis), lambda n: np.asarray(n.argmax(axis), "i4")),
                ("int max", lambda n: vg.max(n, axis, keepdims=True), lambda n: n.max(axis, keepdims=True)),
            ),
            (k,),
        )

    @staticmethod
    def _scaled(source: int, scale: float) -> Step:
        return Step("scale", (source,), lambda x: x * scale, lambda x: x * scale)

    @staticmethod
    def _made(made: tuple[str, Any, Any], sources: tuple[int, ...]) -> Step:
        return Step(made[0], sources, made[1], made[2])


def draw_program(seed: int, length: int, *, smooth: bool = False, arithmetic: bool = False) -> Program:
    return Drawer(seed, smooth, arithmetic).program(length)
