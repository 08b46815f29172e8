"""`detect_anomaly`: say which module, or the gradient of which parameter, was the first that is not finite.

It subscribes to modules that are called and to gradients that are computed, and reads their values: slow, for finding a
mistake. Inside it functions under `vg.jit` run unrecorded, since a recording has no values. This module must not know
any layer or optimiser.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import Any

from vkgrad import functions as f
from vkgrad import history, tree
from vkgrad.errors import NonFiniteError
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


def _look_at_output(module: Any, inputs: tuple[Any, ...], output: Any) -> None:
    found = _strange(output)
    if not found:
        return
    what = " ".join(filter(None, ("of the output", found[0][0])))
    if source := _strange(inputs):
        reason = f"its input has {source[0][1].split()[-1]} already, look at the data"
    elif own := _strange(dict(module.named_parameters())):
        reason = f"its {own[0][0]} has {own[0][1].split()[-1]} already, so lower the learning rate or clip gradients"
    else:
        reason = "its input is finite, so look for a logarithm, a division or an overflow in it"
    raise NonFiniteError(f"{type(module).__name__}: {found[0][1].format(what)}; {reason}")


def _look_at_gradients(name: str, gradients: Any) -> None:
    if found := _strange(gradients):
        place, text = found[0]
        what = f"of the gradient of {place or 'the argument'}"
        raise NonFiniteError(
            f"{name}: {text.format(what)}; the value is finite, so look for a root or a logarithm at 0"
        )


def _strange(value: Any) -> list[tuple[str, str]]:
    """The place of each tensor in a nesting that is not finite, and what there is of that in it."""
    found = []
    for leaf in tree.leaves(value):
        x = leaf.value
        if not isinstance(x, Tensor) or x.dtype.kind != "f" or not x.size:
            continue
        count = int(f.sum(f.logical_not(f.isfinite(x.detach()))))
        if count:
            kind = "nan" if bool(f.any(f.isnan(x.detach()))) else "inf"
            place = leaf.path.replace("['", "").replace("']", "")
            found.append((place, f"{count} of {x.size} elements {{}} {x.shape} {'is' if count == 1 else 'are'} {kind}"))
    return found
