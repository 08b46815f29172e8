"""`vg.report`: one step of a program on one page: graphs, plan, timeline, memory, and every kernel with its GLSL.

The page is a single file that opens without a network. Everything here subscribes to the engine; the core does not know
of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from vkgrad import engine
from vkgrad.errors import ConfigError, UnsupportedError
from vkgrad.reporting.page import page
from vkgrad.reporting.watching import Seen, watching

__all__ = ["Seen", "page", "report", "watching"]


def report(step: Callable[[], Any], path: str | Path, *, roofs: Any = None) -> Path:
    """Call `step` once and write a page about what it submitted: graphs, plans, timeline, memory, kernels.

    What it submits runs several times more with timestamps, and what that writes is put back: the step has been taken
    once. A `vg.jit` function has its graph on the page only if this is its first call. `roofs` (of
    `vkgrad.bench.peaks.measured()`) adds to each kernel how near it comes to what the device can do.

    Raises:
        ConfigError: the name does not end in .html.
        UnsupportedError: the step submitted no kernels, or the device has no timestamps.

    Example:
        >>> import vkgrad as vg
        >>> x = vg.ones((8, 8))
        >>> report(lambda: vg.eval(vg.softmax(x @ x)), "step.html").name
        'step.html'
    """
    path = Path(path)
    if path.suffix != ".html":
        raise ConfigError(f"report: the page is one .html file; {path.name!r} is none")
    engine.flush()  # what was pending before is not the step's
    with watching() as seen:
        kept = step()
        engine.flush()
    del kept
    if not seen:
        raise UnsupportedError("report: the step submitted no kernels; call it on values that are needed")
    name = getattr(step, "__name__", "")
    path.write_text(page(name if name.isidentifier() else "A step", seen, roofs), encoding="utf-8")
    return path
