"""The memory map of a plan: which temporary lies where in the arena, and from which level to which.

Time goes to the right, one column a level; addresses go up. What a plan saves is seen as places that several
temporaries have one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from math import ceil
from typing import Any

from vkgrad import execution
from vkgrad.schedule.kernel import Group, parts
from vkgrad.schedule.plan import Plan
from vkgrad.sizes import in_words
from vkgrad.viz import style
from vkgrad.viz.drawing import Drawing
from vkgrad.viz.style import CHARACTER_PX, LINE_PX, MARGIN, SMALL_CHARACTER_PX, SMALL_PX, ink, stroke

WIDTH, HEIGHT = 1180.0, 420.0  # of the whole, and of the arena
LEFT = 76.0  # room for addresses
TICK_PX = 44.0  # least room between two labels of an axis


@dataclass(frozen=True)
class Life:
    """A temporary: its buffer's number, its bytes in the arena, the levels that write it first and read it last.

    What is only handed on inside a workgroup has its place too, though nothing is ever stored there (`is_stored`).
    """

    number: int
    offset: int
    size_bytes: int
    first: int
    last: int
    is_stored: bool = True


def lives(plan: Plan) -> list[Life]:
    """The temporaries of a plan."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    hidden: set[int] = set()
    for dispatch, level in zip(plan.kernels, plan.levels, strict=True):
        for kernel in parts(dispatch):
            for slot in kernel.written:
                first.setdefault(kernel.slots[slot], level)
            for number in kernel.slots:
                last[number] = max(last.get(number, level), level)
        if isinstance(dispatch, Group):
            hidden |= dispatch.hidden
    return [
        Life(number, buffer.index, buffer.size_bytes, first[number], last[number], number not in hidden)
        for number, buffer in enumerate(plan.buffers)
        if buffer.kind == "temporary" and number in first
    ]


@dataclass(frozen=True, repr=False)
class MemoryMap(Drawing):
    """What `viz.memory` returns: shown by a notebook, and saved by `save`."""

    plan: Plan
    notes: str = field(default="", repr=False)

    @property
    def lives(self) -> list[Life]:
        return lives(self.plan)

    @property
    def title(self) -> str:  # type: ignore[override]
        """What the drawing shows in one sentence."""
        temporaries = self.lives
        apart = sum(life.size_bytes for life in temporaries)
        many = f"{len(temporaries)} temporaries" if len(temporaries) != 1 else "1 temporary"
        return f"{many} in {in_words(self.plan.arena_bytes)}; each in memory of its own: {in_words(apart)}"

    def live_bytes(self) -> list[int]:
        """What temporaries need at each level, at least."""
        return [
            sum(life.size_bytes for life in self.lives if life.first <= level <= life.last)
            for level in range(self.plan.depth)
        ]

    def svg(self) -> str:
        """The map as one SVG element."""
        plan, depth = self.plan, max(self.plan.depth, 1)
        top = MARGIN + 3 * LINE_PX + 14
        arena = HEIGHT if plan.arena_bytes else 0.0
        column = (WIDTH - LEFT - MARGIN) / depth
        height = top + arena + 2 * LINE_PX + 26 + MARGIN
        parts = [
            style.opened(WIDTH, height, escape(self.title)),
            f'<text x="{MARGIN}" y="{MARGIN + 10}" {ink("title")}>{escape(self.title)}</text>',
            f'<text x="{MARGIN}" y="{MARGIN + 10 + LINE_PX}" {ink("text")}>{self._beside("input")}</text>',
            f'<text x="{MARGIN}" y="{MARGIN + 10 + 2 * LINE_PX}" {ink("text")}>{self._beside("output")}</text>',
            *self._addresses(top, arena),
            *self._levels(top, arena, column),
        ]
        if plan.arena_bytes:
            scale = arena / plan.arena_bytes
            parts += [self._box(life, top + arena, column, scale) for life in self.lives]
        return "\n".join([*parts, "</svg>"])

    def _beside(self, kind: str) -> str:
        """What else the plan has in memory from its beginning to its end."""
        found = [
            (number, buffer)
            for number, buffer in enumerate(self.plan.buffers)
            if buffer.kind == kind and number not in self.plan.in_place
        ]
        whole = in_words(sum(buffer.size_bytes for _, buffer in found))
        words = f"beside them {len(found)} {kind}{'s' * (len(found) != 1)} of {whole}"
        if kind == "output" and self.plan.in_place:
            words += f", and {len(self.plan.in_place)} written over the inputs that they replace"
        return words

    def _addresses(self, top: float, arena: float) -> list[str]:
        if not arena:
            return []
        count = 4
        out = []
        for tick in range(count + 1):
            y = top + arena * (1 - tick / count)
            words = in_words(self.plan.arena_bytes * tick / count)
            out.append(
                f'<path d="M{LEFT} {y:.1f} H{WIDTH - MARGIN}" {stroke("grid")}/>'
                f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" font-size="{SMALL_PX}" {ink("faint")}>'
                f"{words}</text>"
            )
        return out

    def _levels(self, top: float, arena: float, column: float) -> list[str]:
        """The axis of time, with the bytes that are needed at each level where there is room for that."""
        depth, out = self.plan.depth, []
        every = max(1, ceil(TICK_PX / column))
        base = top + arena + LINE_PX
        live = self.live_bytes()
        for level in range(depth):
            x = LEFT + level * column
            if arena:
                out.append(f'<path d="M{x:.1f} {top:.1f} V{top + arena:.1f}" {stroke("grid")}/>')
            if level % every:
                continue
            middle = x + column / 2
            out.append(
                f'<text x="{middle:.1f}" y="{base:.1f}" text-anchor="middle" font-size="{SMALL_PX}" {ink("faint")}>'
                f"{level}</text>"
            )
            words = in_words(live[level])
            if len(words) * SMALL_CHARACTER_PX < every * column - 6:
                out.append(
                    f'<text x="{middle:.1f}" y="{base + LINE_PX:.1f}" text-anchor="middle" '
                    f'font-size="{SMALL_PX}" {ink("faint")}>{words}</text>'
                )
        axis = base + 2 * LINE_PX + 4
        return [
            *out,
            f'<text x="{LEFT}" y="{axis:.1f}" {ink("text")}>level, and what temporaries need there at least</text>',
        ]

    def _box(self, life: Life, base: float, column: float, scale: float) -> str:
        buffer = self.plan.buffers[life.number]
        x, width = LEFT + life.first * column + 1, (life.last - life.first + 1) * column - 2
        height = max(life.size_bytes * scale - 1, 0.75)
        y = base - life.offset * scale - height
        name, shape, size = str(life.number), f"{buffer.dtype.name}{list(buffer.shape)}", in_words(life.size_bytes)
        hover = f"temporary {name}: {shape}, {size} at byte {life.offset}, levels {life.first} to {life.last}"
        if not life.is_stored:
            hover += ", handed on inside its workgroups and not stored"
        kind = "leaf" if life.is_stored else "view"
        out = (
            f'<g><title>{escape(hover)}</title><rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" '
            f'height="{height:.1f}" stroke-width="{min(height / 2, 1):.2f}" {style.box(kind)}/>'
        ).replace(' rx="14"', ' rx="2"')
        middle = f'x="{x + width / 2:.1f}" text-anchor="middle"'
        for words in (f"{name}: {shape} {size}", f"{name}: {size}", name):  # the longest that fits
            if len(words) * CHARACTER_PX < width - 6 and height > LINE_PX:
                out += f'<text {middle} y="{y + height / 2 + 4:.1f}" {ink("title")}>{escape(words)}</text>'
                break
        return out + "</g>"


def memory(*values: Any) -> MemoryMap:
    """The memory map of the plan that computes these tensors, or everything pending.

    Example:
        >>> import vkgrad as vg
        >>> x = vg.ones((64, 64))
        >>> memory(vg.softmax(x @ x)).title
        '1 temporary in 16.0 KiB; each in memory of its own: 16.0 KiB'
    """
    found = execution.plan(*values)
    return MemoryMap(found.plan, found.text)
