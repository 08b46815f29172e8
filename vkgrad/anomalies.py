"""`detect_anomaly`: say which module, or the gradient of which parameter, was the first that is not finite.

It subscribes to modules that are called and to gradients that are computed, and reads their values: slow, for finding a
mistake. Inside it functions under `vg.jit` run unrecorded, since a recording has no values. This module must not know
any layer or optimiser.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import Any, NamedTuple

from vkgrad import functions as f
from vkgrad import history, tree
from vkgrad.errors import NonFiniteError, NoValueError
from vkgrad.nn.module import on_call
from vkgrad.tensor import Tensor


class detect_anomaly(ContextDecorator):
    """Inside the block, or the decorated function, refuse what is infinite or not a number where it first comes up.

    Raises: `NonFiniteError`, naming the module whose output it is, or the parameter whose gradient.

    Example:
        >>> import vkgrad as vg
        >>> model = vg.nn.Sequential(vg.nn.Linear(2, 1), vg.nn.LogSigmoid())
        >>> with vg.detect_anomaly():
        ...     try:
        ...         model(vg.tensor([[float("nan"), 0.0]]))
        ...     except vg.errors.NonFiniteError as error:
        ...         print(error)
        Sequential.0 (Linear): 1 of 1 elements of the output (1, 1) is nan; its input has nan already, look at the data
    """

    def __enter__(self) -> detect_anomaly:
        on_call.append(_look_at_output)
        history.on_gradients.append(_look_at_gradients)
        return self

    def __exit__(self, *error: Any) -> None:
        on_call.remove(_look_at_output)
        history.on_gradients.remove(_look_at_gradients)


class Strange(NamedTuple):
    """A tensor that is not finite: its place in a nesting, and how many of its elements are not, NaN or infinite."""

    place: str
    x: Tensor
    number: int
    kind: str

    def of(self, what: str) -> str:
        are = "is" if self.number == 1 else "are"
        return f"{self.number} of {self.x.size} elements of {what} {self.x.shape} {are} {self.kind}"


def _look_at_output(module: Any, inputs: tuple[Any, ...], output: Any) -> None:
    found = _first_strange(output)
    if found is None:
        return
    if (source := _first_strange(inputs)) is not None:
        reason = f"its input has {source.kind} already, look at the data"
    elif (own := _first_strange(dict(module.named_parameters()))) is not None:
        reason = f"its {own.place} has {own.kind} already, so lower the learning rate or clip gradients"
    else:
        reason = "its input is finite, so look for a logarithm, a division or an overflow in it"
    what = f"the output {found.place}" if found.place else "the output"
    raise NonFiniteError(f"{type(module).__name__}: {found.of(what)}; {reason}")


def _look_at_gradients(name: str, gradients: Any) -> None:
    if (found := _first_strange(gradients)) is not None:
        what = f"the gradient of {found.place or 'the argument'}"
        raise NonFiniteError(f"{name}: {found.of(what)}; the value is finite, so look for a root or a logarithm at 0")


def _first_strange(value: Any) -> Strange | None:
    for leaf in tree.leaves(value):
        x = leaf.value
        if not isinstance(x, Tensor) or x.dtype.kind != "f" or not x.size:
            continue
        try:
            count = int(f.sum(f.logical_not(f.isfinite(x.detach()))))
        except NoValueError:  # inside `vmap` there is none to look at
            return None
        if count:
            kind = "nan" if bool(f.any(f.isnan(x.detach()))) else "inf"
            return Strange(leaf.path.replace("['", "").replace("']", ""), x, count, kind)
    return None
