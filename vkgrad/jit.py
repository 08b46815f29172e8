"""`vg.jit`: record a function once per input structure, then replay the recording.

The first call with inputs of some structure runs the Python function on placeholders and records everything it
computes (`vkgrad.step`). Every later call replays that: no graph is built, nothing is scheduled, compiled or allocated.
This module must not know kernels: it decides which recording a call may use, and when there has to be a new one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

import numpy as np

from vkgrad import engine, history
from vkgrad.arguments import at_home, is_foreign
from vkgrad.checked import function_in
from vkgrad.config import config
from vkgrad.step import MISSED, Step
from vkgrad.tensor import Tensor

SWITCHES = ("autocast", "matmul_acc", "device")  # those that decide what a function computes, and where
MANY_TRACES = 8  # more than this of one function deserves a warning
MOST_STEPS = 64  # recordings of one function that are kept; the least recently made goes first


def jit(function: Callable[..., Any]) -> Jitted:
    """Record `function` once per structure, shapes and types of its inputs, then replay the recording.

    Arguments may be tensors, arrays of NumPy and of others, modules, optimisers, Python values, and nestings of these
    in dicts, lists and tuples. A Python value is part of the structure: another value records anew (`.explain()` says
    why), and so does a module that goes from training to evaluation. Tensors outside that the function assigns to are
    updated in place, and gradients that `backward` leaves inside are there afterwards.

    Raises:
        VkgradError: the function reads a value that depends on its arguments, or assigns to an argument.

    Example:
        >>> import vkgrad as vg
        >>> double = vg.jit(lambda x: x * 2)
        >>> double(vg.tensor([1.0, 2.0])).tolist()
        [2.0, 4.0]
    """
    return Jitted(function)


class Jitted:
    """A recorded function. Call it like the function itself."""

    def __init__(self, function: Callable[..., Any]) -> None:
        function_in("jit", function)
        self.function = function
        self.steps: dict[tuple, list[Step]] = {}  # several where what the function branched on has changed
        self.reasons: list[str] = []
        self.latest: Step | None = None  # the one that ran last, and under which switches
        self.switches = config.state()
        update_wrapper(self, function)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        latest, switches = self.latest, config.state()
        unchanged = switches[0] is self.switches[0] and switches[1] is self.switches[1]
        if latest is not None and not named and unchanged and not history.must_run():
            with engine.lock:
                if engine.trace is None:
                    result = latest.again(arguments)
                    if result is not MISSED:
                        return result
        if is_foreign((arguments, named)):
            arguments, named = at_home((arguments, named))
        inputs: list[Any] = []
        key = _structure((arguments, named) if named else arguments, inputs)
        key = (key, *[getattr(config, name) for name in SWITCHES])
        if engine.tracing() is not None or history.must_run() or history.must_keep(inputs):
            return self.function(*arguments, **named)
        with engine.lock:
            if engine.pending:
                engine.flush()
            steps = self.steps.get(key, ())
            step = next((step for step in steps if step.fits()), None)
            step = step or self._record(key, arguments, named)
            self.latest, self.switches = step, switches
            return step.run(inputs)

    def _record(self, key: tuple, arguments: tuple, named: dict[str, Any]) -> Step:
        reason = self._reason(key)
        step = Step(self.function, arguments, named)
        if reason:
            self.reasons.append(reason)
            if len(self.reasons) == MANY_TRACES:
                warnings.warn(
                    f"{getattr(self.function, '__name__', 'a function')} was recorded {MANY_TRACES + 1} times; the "
                    f"last time because {reason}. Pass what varies as an array.",
                    stacklevel=3,
                )
        kept = [other for other in self.steps.pop(key, ()) if not other.is_gone()]
        self.steps[key] = [*kept, step]
        while sum(map(len, self.steps.values())) > MOST_STEPS:
            oldest = next(iter(self.steps))
            self.steps[oldest].pop(0)
            if not self.steps[oldest]:
                del self.steps[oldest]
        return step

    def _reason(self, key: tuple) -> str:
        if key in self.steps:
            return self.steps[key][-1].misfit()
        if not self.steps:
            return ""
        before = next(reversed(self.steps))
        if before[0] != key[0]:
            return _difference(before[0], key[0])
        name, old, new = next(x for x in zip(SWITCHES, before[1:], key[1:], strict=True) if x[1] != x[2])
        return f"config.{name} changed from {old!r} to {new!r}"

    def explain(self) -> str:
        """Why the function was recorded again, each time."""
        return "\n".join(self.reasons) or "recorded once" * bool(self.steps) or "not recorded yet"


class Same:
    """Stands for a thing that cannot be compared: equal to itself only. It lives on here, so that its id stays its."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.thing is self.thing

    def __hash__(self) -> int:
        return id(self.thing)

    def __repr__(self) -> str:
        return repr(self.thing)


def _structure(value: Any, inputs: list[Any]) -> Any:
    """A hashable description of an argument, with its arrays collected in order.

    Modules and optimisers stand for themselves, by identity: what they hold is found by watching the function.
    """
    if isinstance(value, Tensor):
        inputs.append(value)
        return (Tensor, value.shape, value.dtype.name)
    if isinstance(value, np.ndarray):
        inputs.append(value)
        return (np.ndarray, value.shape, value.dtype.str)
    if isinstance(value, tuple | list):
        return (type(value), *[_structure(part, inputs) for part in value])
    if isinstance(value, dict):
        return (dict, *[(key, _structure(part, inputs)) for key, part in value.items()])
    if isinstance(value, float):  # by its digits: 0.0 == -0.0, and NaN is not equal to itself
        return (type(value), float(value).hex())
    if isinstance(value, np.generic):
        return (type(value), value.tobytes())
    try:
        hash(value)
    except TypeError:
        return (type(value), Same(value))
    return (type(value), value)


def _difference(old: Any, new: Any, path: str = "arguments") -> str:
    """Where two structures first differ, in words."""
    if isinstance(old, tuple) and isinstance(new, tuple) and len(old) == len(new):
        for number, (a, b) in enumerate(zip(old, new, strict=True)):
            if a != b:
                return _difference(a, b, f"{path}[{max(number - 1, 0)}]" if isinstance(a, tuple) else path)
    return f"{path} changed from {_shown(old)} to {_shown(new)}"


def _shown(value: Any) -> str:
    if isinstance(value, str) and value.lstrip("-").startswith("0x"):
        return repr(float.fromhex(value))
    return repr(value)
