"""The page: HTML in one file, without scripts, whose links stay inside it. This module must not know the engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from vkgrad.profile.clock import KernelTime
from vkgrad.profile.trace import nearest_roof
from vkgrad.reporting.glsl import highlighted
from vkgrad.sizes import in_words

if TYPE_CHECKING:
    from vkgrad.reporting.watching import Seen

MOST_DRAWN = 6  # plans with sections of their own, those that took longest; the others are only listed
MOST_OPS = 60  # characters of a kernel's operations in the table
STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1d1d1d; --faint: #666; --line: #d5d5d5; --shade: #f6f7f8;
  --accent: #3b76b0; --green: #2c7a37; --purple: #7a3fb5; --orange: #9a5a08; --red: #a83260; --teal: #1f7474; }
@media (prefers-color-scheme: dark) { :root { --paper: #1b1d21; --ink: #e8e8e8; --faint: #a3a7ae; --line: #3c3f46;
  --shade: #24272c; --accent: #7db4e4; --green: #84cf8d; --purple: #c3a6f2; --orange: #e6b067; --red: #ee9ab8;
  --teal: #77cccc; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1264px; padding: 20px 28px 60px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 20px; margin: 40px 0 6px; padding-top: 12px;
  border-top: 2px solid var(--line); } h3 { font-size: 16px; margin: 26px 0 6px; }
p { margin: 4px 0 10px; } .faint { color: var(--faint); } a { color: var(--accent); }
nav { margin: 10px 0; } nav a { margin-right: 16px; white-space: nowrap; }
code, pre, td, th { font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 12.5px; }
table { border-collapse: collapse; width: 100%; margin: 8px 0 14px; }
th { text-align: left; color: var(--faint); font-weight: 600; border-bottom: 1px solid var(--line); }
th, td { padding: 3px 10px 3px 0; vertical-align: top; } tbody tr:nth-child(even) { background: var(--shade); }
td.number, th.number { text-align: right; white-space: nowrap; }
.frame { overflow: auto; max-height: 860px; border: 1px solid var(--line); border-radius: 6px;
  background: var(--paper); }
.frame svg { display: block; } label { font-size: 13px; color: var(--faint); }
input.whole:checked ~ .frame { max-height: none; } input.whole:checked ~ .frame svg { width: 100%; height: auto; }
details { border: 1px solid var(--line); border-radius: 6px; margin: 6px 0; }
details[open] { background: var(--shade); }
summary { cursor: pointer; padding: 6px 12px; font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: 13px; } summary .faint { float: right; padding-left: 20px; }
details > *:not(summary) { margin: 0 12px 10px; }
details table { width: calc(100% - 24px); }
pre { overflow: auto; max-height: 620px; padding: 10px 12px; background: var(--paper); border: 1px solid var(--line);
  border-radius: 6px; line-height: 1.45; }
pre i { font-style: normal; } pre .comment { color: var(--faint); font-style: italic; }
pre .directive { color: var(--orange); }
pre .type { color: var(--teal); } pre .keyword { color: var(--purple); } pre .number { color: var(--green); }
pre .builtin { color: var(--red); } pre .call { color: var(--accent); }
"""


def page(name: str, seen: Sequence[Seen], roofs: Any = None) -> str:
    """The page about plans that ran. `name` says what was watched; `roofs`: what the device can do at most."""
    shown = sorted(seen, key=lambda one: -one.total_us)[:MOST_DRAWN]
    shown = [one for one in seen if one in shown]  # in the order in which they ran
    runs, kernels = sum(one.count for one in seen), sum(one.count * len(one.plan.kernels) for one in seen)
    total_us = sum(one.total_us for one in seen)
    devices = ", ".join(dict.fromkeys(one.device for one in seen))
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>{escape(name)}: a report by vkgrad</title>",
        f"<style>{STYLE}</style></head>\n<body>",
        f"<h1>{escape(name)}</h1>",
        f"<p>{escape(devices)}: {_many(runs, 'submission')} of {_many(kernels, 'kernel')}, "
        f"{total_us:,.1f} µs on the device.</p>",
    ]
    if len(seen) > 1:
        parts += [_overview(seen, shown)]
    if len(shown) < len(seen):
        parts.append(f'<p class="faint">Below are the {len(shown)} plans that took longest.</p>')
    for number, one in enumerate(seen):
        if one in shown:
            parts += _sections(number, one, roofs)
    return "\n".join([*parts, "</body></html>\n"])


def _overview(seen: Sequence[Seen], shown: Sequence[Seen]) -> str:
    rows = [
        [
            f'<a href="#plan{number}">plan {number}</a>' if one in shown else f"plan {number}",
            one.count,
            len(one.plan.kernels),
            one.plan.depth,
            f"{one.times.whole_us:,.1f}" if one.times else "not timed",
            f"{one.total_us:,.1f}",
            in_words(one.plan.arena_bytes),
        ]
        for number, one in enumerate(seen)
    ]
    return _table(["", "#times run", "#kernels", "#levels", "#µs", "#µs of all runs", "#temporaries"], rows)


def _sections(number: int, one: Seen, roofs: Any) -> Iterator[str]:
    drawings = one.drawings()
    yield f'<h2 id="plan{number}">Plan {number}</h2>'
    yield (
        f"<p>{_many(one.plan.nodes, 'node')} in {_many(len(one.plan.kernels), 'kernel')} on "
        f"{_many(one.plan.depth, 'level')}, run {_many(one.count, 'time')}. The first run uploaded "
        f"{in_words(one.uploaded)} and downloaded {in_words(one.downloaded)}.</p>"
    )
    names = [*(f"graph {name}" for name in one.graphs), *drawings, "kernels"]
    links = [f'<a href="#plan{number}-{place}">{escape(name)}</a>' for place, name in enumerate(names)]
    yield f"<nav>{' '.join(links)}</nav>"
    place = 0
    for name, drawing in one.graphs.items():
        yield _heading(number, place, f"Graph: {name}")
        yield _frame(f"plan{number}-{place}", drawing.svg())
        place += 1
    if not one.graphs:
        yield f'<h3>Graph</h3><p class="faint">There is no picture of it: {escape(one.excuse)}.</p>'
    for name, drawing in drawings.items():
        yield _heading(number, place, name.capitalize())
        yield _frame(f"plan{number}-{place}", drawing.svg())
        place += 1
    yield f"<details><summary>The plan in words</summary><pre>{escape(one.text)}</pre></details>"
    yield _heading(number, place, "Kernels")
    if one.times is None:
        yield '<p class="faint">Not timed: too many plans ran before it.</p>'
        return
    yield _kernels(number, one.times.kernels, roofs)
    for at, kernel in enumerate(one.times.kernels):
        yield _kernel(number, at, kernel, one)


def _heading(number: int, place: int, words: str) -> str:
    return f'<h3 id="plan{number}-{place}">{escape(words)}</h3>'


def _frame(name: str, svg: str) -> str:
    """A drawing that is scrolled, or as wide as the page."""
    return (
        f'<div><input type="checkbox" class="whole" id="whole-{name}"> '
        f'<label for="whole-{name}">fit to the page</label><div class="frame">{svg}</div></div>'
    )


def _kernels(number: int, kernels: Sequence[KernelTime], roofs: Any) -> str:
    whole = sum(kernel.time_us for kernel in kernels)
    heads = ["", "kernel", "space", "#level", "#µs", "#share", "#GB/s", "#GFLOP/s", "#FLOP/B"]
    if roofs:
        heads += ["#of roof", "bound by"]
    rows = []
    for at, kernel in enumerate(kernels):
        row: list[Any] = [
            f'<a href="#plan{number}-kernel{at}">#{at}</a>',
            escape(kernel.name),
            escape(kernel.space.replace("|", "over")),
            kernel.kernel.level,
            f"{kernel.time_us:,.1f}",
            f"{kernel.time_us / whole:.1%}",
            f"{kernel.gb_s:.2f}",
            f"{kernel.gflop_s:.2f}",
            f"{kernel.intensity:.2f}",
        ]
        if roofs:
            share, which = nearest_roof(kernel.gb_s, kernel.gflop_s, roofs)
            row += [f"{share:.1%}", which]
        rows.append([*row, escape(_cut(" ".join(kernel.kernel.ops)))])
    note = f'<p class="faint">At most: {escape(str(roofs))}</p>' if roofs else ""
    return _table([*heads, "operations"], rows) + note


def _kernel(number: int, at: int, kernel: KernelTime, one: Seen) -> str:
    facts = kernel.kernel
    buffers = [
        [
            f"{name} {buffer.kind} {index}",
            f"{buffer.dtype.name}{list(buffer.shape)}",
            in_words(buffer.size_bytes),
        ]
        for name, numbers in (("reads", facts.reads), ("writes", facts.writes))
        for index in numbers
        for buffer in (one.plan.buffers[index],)
    ]
    body = f"<p>{escape(' '.join(facts.ops))}</p>" + _table(["buffer", "", "#size"], buffers)
    if one.shaders:
        shader = one.shaders[at]
        numbers = ", ".join(map(str, shader.numbers)) or "none"
        chosen = ", ".join(f"{name} {value}" for name, value in shader.parameters) or "none"
        body += (
            f"<p>workgroups {' × '.join(map(str, shader.groups))}; parameters of its row: {escape(chosen)}; "
            f"specialisation constants: {numbers}</p><pre>{highlighted(shader.source)}</pre>"
        )
    else:
        body += '<p class="faint">The cpu device runs it with NumPy: there is no GLSL.</p>'
    return (
        f'<details id="plan{number}-kernel{at}"><summary>#{at} {escape(kernel.name)} {escape(kernel.space)}'
        f'<span class="faint">level {facts.level} · {kernel.time_us:,.1f} µs</span></summary>{body}</details>'
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table of cells that are HTML already; a column whose head begins with # holds numbers."""
    kinds = [' class="number"' if head.startswith("#") else "" for head in heads]
    top = "".join(f"<th{kind}>{escape(head.removeprefix('#'))}</th>" for head, kind in zip(heads, kinds, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{cell}</td>" for cell, kind in zip(row, kinds, strict=True)) + "</tr>\n"
        for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _cut(words: str) -> str:
    return words if len(words) <= MOST_OPS else words[: MOST_OPS - 1] + "…"


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"
