"""Checks that users' own functions deserve: are the gradients right, and did it run where it should.

`check_grads` compares derivatives with difference quotients of the function's own values. It knows nothing of how they
were computed, so it cannot repeat a mistake of the gradient rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vkgrad import engine, tree
from vkgrad.counters import counting
from vkgrad.errors import DifferentiationError, DTypeError, OptionError, UnsupportedError
from vkgrad.functional import jvp, linearize, vjp
from vkgrad.tensor import Tensor, is_operand, lift, tensor

Array = np.ndarray[Any, np.dtype[Any]]
Function = Callable[..., list[Tensor]]  # float tensors in, float tensors out


@dataclass(frozen=True)
class Accuracy:
    """How closely a difference quotient can be compared in one element type.

    `step` balances the quotient's two errors: what the formula leaves out, about step**4 times a fifth derivative, and
    rounding of the values, about epsilon / step. `relative` is several times what both leave on functions of ordinary
    size, and still three times below the 1e-3 that a check has to find.
    """

    step: float
    relative: float


ACCURACY = {"float32": Accuracy(2.0**-6, 3e-4), "float64": Accuracy(2.0**-12, 1e-7)}

# Elements of an argument that are moved one by one; the others are only in the direction that moves all of them.
PLACES_MAX = 16


def check_grads(
    f: Callable[..., Any],
    args: Any,
    order: int = 2,
    modes: Sequence[str] = ("rev", "fwd"),
    *,
    step: float | None = None,
    relative: float | None = None,
    seed: int = 0,
) -> None:
    """Compare the derivatives of `f` at `args`, up to `order`, with difference quotients; raise where they disagree.

    Each float argument is moved at up to 16 of its elements, one at a time, and all of them once in a random direction.
    The outputs are added up with fixed random weights. Order 2 checks the derivative of the derivative in the same way.
    Keep the arguments away from kinks and from the edge of the domain, by more than twice the step.

    Args:
        f: takes tensors, or nestings of them, and returns the same.
        args: a tuple or list of its arguments; anything else is the only one. Integers and masks are left as they are.
        order: the highest derivative to check.
        modes: "rev" for `vkgrad.vjp`, "fwd" for `vkgrad.jvp`.
        step: how far to move an element; 2**-6 for float32 and 2**-12 for float64 if None.
        relative: the largest error allowed, in units of the largest derivative; 3e-4 and 1e-7 if None.
        seed: of the random weights and directions.

    Raises:
        AssertionError: a derivative is wrong, or not a number; the text says which, where and by how much.
        DifferentiationError: there is nothing to differentiate.
        UnsupportedError: the device cannot compute `f` in this type. Where it has no float64, check in float32, or on
            the `cpu` device.

    Example:
        >>> import vkgrad as vg
        >>> vg.testing.check_grads(lambda x, y: vg.tanh(x) * y, (vg.tensor([0.3, -0.7]), vg.tensor([1.5, 2.0])))
    """
    for mode in modes:
        if mode not in ("rev", "fwd"):
            raise OptionError(f'check_grads: modes are "rev" and "fwd", not {mode!r}')
    given = tuple(args) if isinstance(args, tuple | list) else (args,)
    leaves = list(tree.leaves(given))
    if any(leaf.of_module for leaf in leaves):
        raise DifferentiationError("check_grads: takes tensors, not modules; pass dict(module.named_parameters())")
    values = [lift(leaf.value) if is_operand(leaf.value) else leaf.value for leaf in leaves]
    moving = [i for i, value in enumerate(values) if isinstance(value, Tensor) and value.dtype.kind == "f"]
    if not moving:
        raise DifferentiationError("check_grads: none of the arguments is a float tensor, so nothing can be checked")
    form = tree.structure(given)

    def of_floats(*floats: Tensor) -> list[Tensor]:
        filled = list(values)
        for i, value in zip(moving, floats, strict=True):
            filled[i] = value
        outputs = [leaf.value for leaf in tree.leaves(f(*form.unflatten(filled)))]
        return [y for y in outputs if isinstance(y, Tensor) and y.dtype.kind == "f"]

    for i in moving:
        if values[i].dtype.narrow:
            raise DTypeError(
                f"check_grads: finite differences of {values[i].dtype.name} show its rounding, not a gradient; "
                "check the function in float32 or float64"
            )
    floats = [values[i].numpy() for i in moving]
    coarsest = max((ACCURACY[values[i].dtype.name] for i in moving), key=lambda accuracy: accuracy.step)
    check = _Check(
        names=[f"argument {leaves[i].path}" for i in moving],
        accuracy=Accuracy(step or coarsest.step, relative or coarsest.relative),
        generator=np.random.default_rng(seed),
    )
    try:
        for mode in modes:
            check.run(of_floats, floats, mode, order)
    except UnsupportedError as error:
        error.add_note("check_grads: where a device lacks float64, check in float32, or with VKGRAD_DEVICE=cpu")
        raise


@dataclass(frozen=True)
class _Slope:
    """One derivative, computed twice: `found` by the rules, `quotient` from values that rounding blurs by `noise`."""

    place: str
    found: float
    quotient: float
    noise: float


@dataclass(frozen=True)
class _Check:
    names: list[str]
    accuracy: Accuracy
    generator: np.random.Generator

    def run(self, f: Function, args: list[Array], mode: str, order: int, level: int = 1) -> None:
        """Compare the derivative of `f`, then check it as the next function."""
        outputs = f(*map(tensor, args))
        if not outputs:
            raise DifferentiationError("check_grads: the function returns no float tensor, so it has no derivative")
        weights = [self._random(y.shape, y.dtype.numpy) for y in outputs]
        tangents = [tensor(self._random(x.shape, x.dtype)) for x in args]
        self._compare(f, args, weights, mode, level)
        if level < order:
            cotangents = [tensor(w) for w in weights]
            derivative: Function = (
                (lambda *x: list(vjp(f, *x)[1](cotangents))) if mode == "rev" else (lambda *x: jvp(f, x, tangents)[1])
            )
            self.run(derivative, args, mode, order, level + 1)

    def _random(self, shape: Sequence[int], dtype: Any) -> Array:
        """Numbers between 0.5 and 1.5 of either sign: none so small that an error hides behind it."""
        size = self.generator.uniform(0.5, 1.5, tuple(shape))
        return (size * self.generator.choice([-1.0, 1.0], tuple(shape))).astype(dtype)

    def _compare(self, f: Function, args: list[Array], weights: list[Array], mode: str, level: int) -> None:
        along = _by_reverse(f, args, weights) if mode == "rev" else _by_forward(f, args, weights)
        groups = [
            [self._slope(f, args, weights, along, *d) for d in self._one_by_one(args, k)] for k in range(len(args))
        ]
        groups.append(
            [self._slope(f, args, weights, along, "all together", [self._random(x.shape, float) for x in args])]
        )
        for slopes in groups:
            largest = max((max(abs(s.found), abs(s.quotient)) for s in slopes), default=0.0)
            for s in slopes:
                error = abs(s.found - s.quotient)
                if not error <= self.accuracy.relative * largest + s.noise:  # not: NaN fails too
                    raise AssertionError(
                        f"check_grads: {mode}, order {level}, {s.place}: the derivative is {s.found:.8g}, the "
                        f"difference quotient {s.quotient:.8g}; they differ by {error / (largest or 1.0):.1e} of the "
                        f"largest, allowed is {self.accuracy.relative:.1e}"
                    )

    def _one_by_one(self, args: list[Array], k: int) -> Iterator[tuple[str, list[Array]]]:
        """Directions that move one element of argument `k` each."""
        places = self.generator.permutation(args[k].size)[:PLACES_MAX]
        for place in sorted(places):
            direction = [np.zeros(x.shape) for x in args]
            direction[k].flat[place] = 1.0
            yield f"{self.names[k]} at {[int(i) for i in np.unravel_index(place, args[k].shape)]}", direction

    def _slope(
        self,
        f: Function,
        args: list[Array],
        weights: list[Array],
        along: Callable[[list[Array]], float],
        place: str,
        direction: list[Array],
    ) -> _Slope:
        step = self.accuracy.step
        (near, moved, noise), (far, moved_far, _) = (
            _quotient(f, args, weights, direction, h) for h in (step, 2 * step)
        )
        # Richardson's combination removes the error of order step**2. What was really moved differs from the direction
        # by the rounding of the arguments, so the derivative is taken along that.
        exact = [(4 * a - b) / 3 for a, b in zip(moved, moved_far, strict=True)]
        return _Slope(place, along(exact), (4 * near - far) / 3, noise)


def _quotient(
    f: Function, args: list[Array], weights: list[Array], direction: list[Array], step: float
) -> tuple[float, list[Array], float]:
    """The central difference quotient, the direction that was really moved in, and how far rounding may be off."""
    ahead, behind = ([(x + s * d).astype(x.dtype) for x, d in zip(args, direction, strict=True)] for s in (step, -step))
    moved = [(a.astype(np.float64) - b) / (2 * step) for a, b in zip(ahead, behind, strict=True)]
    slope = noise = 0.0
    for w, after, before in zip(weights, _values(f, ahead), _values(f, behind), strict=True):
        change = after.astype(np.float64) - before
        slope += float((w * change).sum()) / (2 * step)
        touched = np.abs(w * after)[change != 0]  # an output that did not move has no rounding error either
        noise += 2 * float(np.finfo(after.dtype).eps) * float(touched.sum()) / step
    return slope, moved, noise


def _values(f: Function, args: list[Array]) -> list[Array]:
    outputs = f(*map(tensor, args))
    engine.evaluate([y.node for y in outputs])
    return [y.numpy() for y in outputs]


def _by_reverse(f: Function, args: list[Array], weights: list[Array]) -> Callable[[list[Array]], float]:
    """The derivative along a direction, from the gradient of the weighted outputs."""
    gradients = [g.numpy() for g in vjp(f, *map(tensor, args))[1]([tensor(w) for w in weights])]
    return lambda direction: float(sum((g * d).sum() for g, d in zip(gradients, direction, strict=True)))


def _by_forward(f: Function, args: list[Array], weights: list[Array]) -> Callable[[list[Array]], float]:
    """The derivative along a direction, from the product of the Jacobian with it."""
    _, push = linearize(f, *map(tensor, args))

    def along(direction: list[Array]) -> float:
        pushed = push(*(tensor(d.astype(x.dtype)) for d, x in zip(direction, args, strict=True)))
        return float(sum((w * y.numpy().astype(np.float64)).sum() for w, y in zip(weights, pushed, strict=True)))

    return along


def assert_on_device(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run `f`, compute the tensors it returns, and raise if any of it ran on the host; return what `f` returned.

    Raises:
        AssertionError: an operation ran on the host, or nothing ran at all; the text has the counters.

    Example:
        >>> import vkgrad as vg
        >>> vg.testing.assert_on_device(lambda x: vg.tanh(x) + 1, vg.tensor([0.0])).tolist()
        [1.0]
    """
    with counting() as counts:
        result = f(*args, **kwargs)
        engine.evaluate([leaf.value.node for leaf in tree.leaves(result) if isinstance(leaf.value, Tensor)])
    if counts.host_nodes or not counts.dispatches:
        what = "ran partly on the host" if counts.host_nodes else "computed nothing on the device"
        raise AssertionError(f"assert_on_device: {getattr(f, '__name__', f)} {what}:\n{counts.report()}")
    return result
