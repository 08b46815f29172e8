"""Names that are nearly right: what somebody meant, and what other libraries call the same thing.

Whoever refuses a name or a keyword asks here what to suggest. Nothing is looked for unless there is an error, and only
once its text is read: programs ask with `hasattr` for much that is not there. This module must not know who asks.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache, wraps
from typing import Any, TypeVar

from vkgrad.errors import UnknownNameError

F = TypeVar("F", bound=Callable[..., Any])

# Keywords of other libraries, and what they are called here.
KEYWORDS = {
    "dim": "axis", "dims": "axis", "axes": "axis", "keepdim": "keepdims", "keep_dims": "keepdims", "input": "x",
    "num_workers": "workers", "learning_rate": "lr", "decay": "weight_decay", "filters": "out_channels",
    "validation_data": "validation", "val_loader": "validation", "callbacks": "listeners", "verbose": "progress",
    "strides": "stride", "axis": "dim", "units": "out_features", "ddof": "correction", "unbiased": "correction",
}  # fmt: skip


def meant(name: str, known: Iterable[str], elsewhere: Mapping[str, str] | None = None) -> str:
    """`did you mean 'x'?`, the nearest of the names that there are (or what `elsewhere` says of it); else "".

    Example:
        >>> meant("sofmax", ["softmax", "softmin"])
        "did you mean 'softmax'?"
    """
    names = list(known)
    if elsewhere and (same := elsewhere.get(name)) in names:
        return f"did you mean {same!r}?"
    near = get_close_matches(name.lower(), {each.lower() for each in names}, 1, 0.7)
    if not near:
        return ""
    (best,) = get_close_matches(name, [each for each in names if each.lower() == near[0]], 1, 0.0)
    return f"did you mean {best!r}?"


def listed(names: Iterable[str], most: int = 8) -> str:
    """Names in a row, the first of them where there are many."""
    found = list(names)
    rest = f" and {len(found) - most} more" if len(found) > most else ""
    return (", ".join(found[:most]) + rest) if found else "nothing"


def suggested(text: str, suggestion: str) -> str:
    """A sentence with what to do instead, if anything is known."""
    return f"{text}; {suggestion}" if suggestion else text


def unknown(owner: str, name: str, known: Callable[[], Iterable[str]], elsewhere: Mapping[str, str]) -> Exception:
    """The error for an attribute that is not there. `elsewhere` says of names from other libraries what to write."""

    def suggest() -> str:
        return elsewhere.get(name) or meant(name, [each for each in known() if not each.startswith("_")])

    return UnknownNameError(f"{owner} has no attribute {name!r}", None if name.startswith("_") else suggest)


# ---- keywords
def is_own(function: Callable[..., Any]) -> bool:
    """Whether a function is of this package. Nothing is kept for others: it would keep their programs' globals."""
    return (getattr(function, "__module__", None) or "").startswith("vkgrad.")


def _accepted(function: Callable[..., Any]) -> frozenset[str] | None:
    return _accepted_by_own(function) if is_own(function) else _accepted_by_own.__wrapped__(function)


@lru_cache(maxsize=1024)
def _accepted_by_own(function: Callable[..., Any]) -> frozenset[str] | None:
    """The keywords that a function takes; None where it takes all."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return frozenset(p.name for p in parameters if p.kind is not p.POSITIONAL_ONLY and p.name != "self")


def refuse_unknown(name: str, function: Callable[..., Any], given: Iterable[str]) -> None:
    """Refuse keywords that `function` does not take. Raises: `TypeError`, as Python does, with the nearest one."""
    accepted = _accepted(function)
    for keyword in given:
        if accepted is not None and keyword not in accepted:
            shown = sorted(word for word in accepted if not word.startswith("_"))
            suggestion = meant(keyword, shown, KEYWORDS) or f"it takes {', '.join(shown)}"
            raise TypeError(f"{name}: there is no argument {keyword!r}; {suggestion}") from None


def spelled(function: F) -> F:
    """`function`; a keyword that it does not take is refused with the nearest that it does."""
    known = vars(function).get("spelled_as")  # which what wraps a function, and takes more, has from that one
    if known is not None and function in (known, known.__wrapped__):  # it is one, or has one under another name
        return known

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        if not named:
            return function(*arguments)
        try:
            return function(*arguments, **named)
        except TypeError:
            # NumPy's functions ask the method of their name and hand on what they were not given: np.mean(x)
            given = {name: value for name, value in named.items() if value is not None or name not in ("dtype", "out")}
            refuse_unknown(function.__name__, function, given)
            if len(given) == len(named):
                raise
        return function(*arguments, **given)

    function.spelled_as = call.spelled_as = call  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def answer_misspellings(names: dict[str, Any], elsewhere: Mapping[str, str] | None = None) -> None:
    """Let a module, given as its globals, refuse names that it has not, and its functions keywords that they have not.

    Called at the end of the module. What reads a function from the modules below it later, or from its home, finds the
    same one.
    """
    inside = [module for path, module in sys.modules.items() if path.startswith(f"{names['__name__']}.")]
    for name, function in list(names.items()):
        if name.startswith("_") or not inspect.isfunction(function) or not is_own(function):
            continue
        if name not in names.get("__all__", names):
            continue
        names[name] = found = spelled(function)
        for home in (*inside, sys.modules[function.__module__]):
            if vars(home).get(name) is function:
                setattr(home, name, found)

    def missing(name: str) -> Any:
        raise unknown(names["__name__"], name, lambda: names.get("__all__", names), elsewhere or {})

    names.setdefault("__getattr__", missing)
