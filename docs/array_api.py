"""The array API standard beside vkgrad: what the standard has, by section, and what of it is there.

`docs/generate.py` makes a table of it, `tests/test_array_api.py` insists on it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import vkgrad

# What differs although it is there.
PAIRS = "complex numbers are pairs in a last axis of extent 2"
NOTES = {
    "__setitem__": "refused: tensors do not change in place; `x.at[index].set(value)` gives a new one",
    "to_device": "refused where a gradient could be asked for",
    **dict.fromkeys(("fft", "fftn", "hfft", "ifft", "ifftn", "ihfft", "irfft", "irfftn", "rfft", "rfftn"), PAIRS),
    **dict.fromkeys(("conj", "imag", "real"), "of real numbers"),
    **dict.fromkeys(("complex64", "complex128"), "no such type: " + PAIRS),
}

STANDARD = Path(__file__).parent / "array_api_2024_12.txt"


class Entry(NamedTuple):
    """One thing that a namespace has to have; `found` is ours. `signature` is empty for what is no function."""

    section: str
    name: str
    signature: str
    found: Any
    present: bool

    @property
    def complaint(self) -> str:
        """What keeps a call that the standard allows from working here, or nothing."""
        return misfit(parsed(self.signature), inspect.signature(self.found)) if self.signature and self.present else ""


def entries() -> Iterator[Entry]:
    section = ""
    for line in STANDARD.read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            name, parenthesis, rest = line.partition("(")
            found, present = resolved(name)
            yield Entry(section, name, parenthesis + rest, found, present)


def rows() -> Iterator[tuple[str, str, str, str]]:
    """Section, name, whether it is there, and what differs."""
    for entry in entries():
        state = "absent" if not entry.present else entry.complaint or "present"
        yield entry.section, f"`{entry.name}{entry.signature}`", state, NOTES.get(entry.name.rpartition(".")[2], "")


def resolved(name: str) -> tuple[Any, bool]:
    found: Any = vkgrad
    for part in name.split("."):
        if not hasattr(found, part):
            return None, False
        found = getattr(found, part)
    return found, True


def parsed(signature: str) -> inspect.Signature:
    scope: dict[str, Any] = {}
    exec(f"def standard{signature}: ...", scope)
    return inspect.signature(scope["standard"])


def misfit(standard: inspect.Signature, ours: inspect.Signature) -> str:
    """Why `ours` does not take every call that `standard` does; more than that is welcome."""
    kinds = inspect.Parameter
    mine = list(ours.parameters.values())
    positional = [p for p in mine if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    rest = any(p.kind is kinds.VAR_POSITIONAL for p in mine)
    named = {p.name: p for p in mine if p.kind in (kinds.KEYWORD_ONLY, kinds.POSITIONAL_OR_KEYWORD)}
    answered = set()
    for place, wanted in enumerate(standard.parameters.values()):
        if wanted.kind is kinds.VAR_POSITIONAL:
            if not rest:
                return f"takes no *{wanted.name}"
            continue
        by_place = positional[place] if place < len(positional) else None
        by_name = named.get(wanted.name)
        if wanted.kind is not kinds.KEYWORD_ONLY and by_place is None and not rest:
            return f"{wanted.name} is not taken by position"
        if wanted.kind is not kinds.POSITIONAL_ONLY and by_name is None:
            return f"{wanted.name} is not taken by name"
        if wanted.kind is kinds.POSITIONAL_OR_KEYWORD and by_place is not by_name and not rest:
            return f"{wanted.name} stands elsewhere"
        match = by_name if wanted.kind is not kinds.POSITIONAL_ONLY else by_place
        if match is None:
            continue
        answered.add(match.name)
        if wanted.default is not wanted.empty and match.default != wanted.default:
            return f"{wanted.name} is {match.default!r} by default, not {wanted.default!r}"
    needed = [p.name for p in mine if p.default is p.empty and p.kind is not kinds.VAR_POSITIONAL]
    if more := [name for name in needed if name not in answered]:
        return f"{more[0]} is needed"
    return ""
