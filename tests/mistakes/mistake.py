"""What a mistake is in these tests, and the check that its error names the place and the fix, at the call that made it.

A mistake is a snippet as somebody would type it, whose wrong line ends in `# <-`. `faults` runs it and says what is
wrong with the error that it gets: raised somewhere else, of another class, without the name or the fix, with words from
inside, longer than a sentence or two, or leaving something behind that later computations would meet.
"""

from __future__ import annotations

import gc
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np

import vkgrad as vg
from vkgrad import engine, history
from vkgrad.config import SWITCHES, config

MARK = "# <-"
MOST_CHARACTERS = 300
# What nobody who only uses the package has heard of: our classes and helpers, addresses, files, kernels' names.
INSIDE = re.compile(
    r"0x[0-9a-f]{4,}|object at|\bNode\b|\bnodes?\b|\bleaf\b|Traceback|File \"|\.py\b|\b_[a-z]\w*|\bkernel_\d+"
    r"|\blambda\b|NoneType|<class|<function|<bound"
)
PRELUDE = """
from pathlib import Path
import numpy as np
import vkgrad as vg
from vkgrad import nn, optim
from vkgrad.nn import functional as F
"""


@dataclass(frozen=True)
class Mistake:
    """One typical mistake.

    what      a few words, the test's id
    code      the snippet; `folder` is an empty directory
    error     the class that users catch
    names     what the sentence must contain: the layer or call, the shapes, types or values that do not fit
    fix       words of what to do instead
    then      what must go on working in the same program afterwards
    longest   more characters than usual, where everything that is wrong is listed at once
    """

    what: str
    code: str
    error: type[BaseException]
    names: tuple[str, ...]
    fix: tuple[str, ...]
    then: str = ""
    longest: int = MOST_CHARACTERS

    @property
    def line(self) -> int:
        """The number of the marked line."""
        marked = [n for n, line in enumerate(self.source.splitlines(), 1) if line.rstrip().endswith(MARK)]
        assert len(marked) == 1, f"{self.what}: one line ends in {MARK!r}, not {len(marked)}"
        return marked[0]

    @property
    def source(self) -> str:
        return PRELUDE + dedent(self.code)


def mistake(
    what: str,
    code: str,
    error: type[BaseException],
    names: str | tuple[str, ...],
    fix: str | tuple[str, ...],
    then: str = "",
    longest: int = MOST_CHARACTERS,
) -> Mistake:
    as_tuple = lambda words: (words,) if isinstance(words, str) else tuple(words)  # noqa: E731
    return Mistake(what, code, error, as_tuple(names), as_tuple(fix), then, longest)


def faults(case: Mistake, folder: Path) -> list[str]:
    """What is wrong with the error that the mistake gets, in words; nothing where all is as promised."""
    found: list[str] = []
    with vg.counting() as counts, undisturbed(found):
        found += _raised(case, folder)
    if counts.host_nodes:
        found.append(f"{counts.host_nodes} operations were computed on the host")
    return found


def message_of(case: Mistake, folder: Path) -> str:
    """The text of the error that the mistake gets, for whoever looks at all of them."""
    try:
        exec(compile(case.source, "<mistake>", "exec"), {"__name__": "__main__", "folder": folder})
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing was raised"


def _raised(case: Mistake, folder: Path) -> list[str]:
    """Run the snippet and look at its error. What it holds is let go of with this frame."""
    file = f"<{case.what}>"
    program: dict[str, Any] = {"__name__": "__main__", "folder": folder}
    try:
        exec(compile(case.source, file, "exec"), program)
    except Exception as error:
        found = _looked_at(case, error, file, folder)
        traceback.clear_frames(error.__traceback__)
    else:
        return ["nothing was raised"]
    try:
        exec(compile(dedent(case.then), f"{file}, then", "exec"), program)
    except Exception as error:
        found.append(f"afterwards: {type(error).__name__}: {error}")
    return found


def _looked_at(case: Mistake, error: Exception, file: str, folder: Path) -> list[str]:
    text = str(error).replace(str(folder), "folder")  # as short as the user's
    found = []
    if not isinstance(error, case.error):
        found.append(f"a {type(error).__name__}, not a {case.error.__name__}: {text}")
    own = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    if not own or own[-1] != case.line:
        found.append(f"raised at line {own[-1] if own else None} of the program, the mistake is in line {case.line}")
    found += [f"does not name {name!r}: {text}" for name in case.names if name not in text]
    found += [f"does not say {word!r}, which mends it: {text}" for word in case.fix if word not in text]
    if "\n" in text or not text.strip():
        found.append(f"not a line: {text!r}")
    if len(text) > case.longest:
        found.append(f"{len(text)} characters, at most {case.longest} are read: {text}")
    if len(re.findall(r"[.!?] +(?=[A-Z])", text)) > 1:
        found.append(f"more than two sentences: {text}")
    if word := INSIDE.search(text):
        found.append(f"{word.group()!r} is a word from inside: {text}")
    if error.__cause__ is not None or (error.__context__ is not None and not error.__suppress_context__):
        found.append(f"shows another error before it: {error.__cause__ or error.__context__!r}")
    return found


@contextmanager
def undisturbed(found: list[str]) -> Iterator[None]:
    """Note what was disturbed inside: values that were pending, modes, or what is pending for nobody any more."""
    rows = vg.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    before = rows * 2 + 1
    state = _modes()
    vg.manual_seed(0)  # the generator's counter would wait for its value, and that is as it should be
    gc.collect()
    waiting = {id(handle) for handle in engine.waiting()}
    yield
    vg.manual_seed(0)
    gc.collect()
    if {id(handle) for handle in engine.waiting()} - waiting:
        found.append("the error left tensors behind that are computed with the next value")
    if _modes() != state:
        found.append(f"a mode has changed: {state} became {_modes()}")
    if before.tolist() != [[1, 3, 5], [7, 9, 11]]:
        found.append(f"what was pending came out as {before.tolist()}")
    gradient = vg.grad(lambda x: (x * x).sum())(rows)
    if gradient.tolist() != [[0, 2, 4], [6, 8, 10]]:
        found.append(f"a gradient afterwards came out as {gradient.tolist()}")


def _modes() -> tuple[Any, ...]:
    return (
        engine.trace,
        history.is_transforming(),
        history.is_recording(),
        *(getattr(config, name) for name in SWITCHES),
    )
