"""When a plan's kernels ran, by the device's clock: levels one after the other, the kernels of a level in lanes.

A level is as wide as it took with its kernels side by side, or as its longest kernel took alone, whichever is more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

from vkgrad.profile.clock import KernelTime, StepTimes
from vkgrad.viz import style
from vkgrad.viz.drawing import Drawing
from vkgrad.viz.plans import style_of
from vkgrad.viz.style import CHARACTER_PX, LINE_PX, MARGIN, SMALL_PX, ink, stroke

WIDTH = 1180.0
LANE_PX, LANE_GAP = 24.0, 4.0
TICKS = 8


def round_step(span: float) -> float:
    """A step of 1, 2 or 5 times a power of ten that cuts `span` into about `TICKS` pieces.

    Example:
        >>> round_step(100.0), round_step(7.0)
        (10.0, 1.0)
    """
    power = 0.001
    while True:
        for times in (1, 2, 5):
            if power * times * TICKS >= span / 1.3:
                return power * times
        power *= 10


@dataclass(frozen=True, repr=False)
class Timeline(Drawing):
    """Kernels as bars over µs: shown by a notebook, and saved by `save`."""

    times: StepTimes
    notes: str = field(default="", repr=False)

    @property
    def title(self) -> str:  # type: ignore[override]
        """What the drawing shows in one sentence."""
        times = self.times
        return (
            f"{times.whole_us:,.1f} µs in a row; its levels one by one {sum(times.levels_us):,.1f} µs, "
            f"its kernels one by one {times.alone_us:,.1f} µs"
        )

    def _levels(self) -> list[tuple[float, list[tuple[int, KernelTime]]]]:
        """Width in µs and numbered kernels of each level."""
        found: list[list[tuple[int, KernelTime]]] = [[] for _ in self.times.levels_us]
        for number, kernel in enumerate(self.times.kernels):
            found[kernel.kernel.level].append((number, kernel))
        return [
            (max([level_us, *(kernel.time_us for _, kernel in kernels)]), kernels)
            for level_us, kernels in zip(self.times.levels_us, found, strict=True)
        ]

    def svg(self) -> str:
        """The timeline as one SVG element."""
        levels = self._levels()
        span = sum(width for width, _ in levels) or 1.0
        lanes = max((len(kernels) for _, kernels in levels), default=1)
        top = MARGIN + LINE_PX + 12
        bottom = top + lanes * (LANE_PX + LANE_GAP)
        scale = (WIDTH - 2 * MARGIN) / span
        parts = [
            style.opened(WIDTH, bottom + 2 * LINE_PX + MARGIN, escape(self.title)),
            f'<text x="{MARGIN}" y="{MARGIN + 10}" {ink("title")}>{escape(self.title)}</text>',
            *self._ticks(span, scale, top, bottom),
        ]
        at = 0.0
        for level, (width, kernels) in enumerate(levels):
            x = MARGIN + at * scale
            if level:
                parts.append(f'<path d="M{x:.1f} {top:.1f} V{bottom:.1f}" {stroke("alarm")} stroke-opacity="0.5"/>')
            for lane, (number, kernel) in enumerate(kernels):
                parts.append(_bar(number, kernel, x, top + lane * (LANE_PX + LANE_GAP), kernel.time_us * scale))
            at += width
        return "\n".join([*parts, "</svg>"])

    def _ticks(self, span: float, scale: float, top: float, bottom: float) -> list[str]:
        step, out, number = round_step(span), [], 0
        while number * step <= span:
            x = MARGIN + number * step * scale
            anchor = "start" if not number else "middle" if x < WIDTH - 60 else "end"
            out.append(
                f'<path d="M{x:.1f} {top:.1f} V{bottom:.1f}" {stroke("grid")}/>'
                f'<text x="{x:.1f}" y="{bottom + LINE_PX:.1f}" text-anchor="{anchor}" font-size="{SMALL_PX}" '
                f"{ink('faint')}>{number * step:,.7g}{'' if number else ' µs'}</text>"
            )
            number += 1
        return out


def _bar(number: int, kernel: KernelTime, x: float, y: float, width: float) -> str:
    hover = (
        f"#{number} {kernel.name} {kernel.space}: {kernel.time_us:,.1f} µs, {kernel.gb_s:.2f} GB/s, "
        f"{kernel.gflop_s:.2f} GFLOP/s; {' '.join(kernel.kernel.ops)}"
    )
    out = (
        f'<g><title>{escape(hover)}</title><rect x="{x + 0.5:.1f}" y="{y:.1f}" width="{max(width - 1, 1):.1f}" '
        f'height="{LANE_PX}" {style.box(style_of(kernel.kernel))}/>'
    ).replace(' rx="4"', ' rx="2"')
    for words in (f"#{number} {kernel.name} {kernel.time_us:,.0f} µs", f"#{number} {kernel.name}", f"#{number}"):
        if len(words) * CHARACTER_PX < width - 8:  # the longest that fits
            out += f'<text x="{x + 4:.1f}" y="{y + LANE_PX / 2 + 4:.1f}" {ink("title")}>{escape(words)}</text>'
            break
    return out + "</g>"
