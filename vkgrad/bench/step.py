"""One step taken apart by who is at work: Python, recording, handing over, the device, waiting, reading the loss.

The parts are measured inside the same steps, but for the device's, and add up to them. The core has no hooks for this
and shall not pay for any: for the time of the measurement, the device's `record` and its recordings' `write`, `submit`
and `run` are wrapped; where `run` is one native call, its twin that looks at the clock takes its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from time import perf_counter
from typing import Any

from vkgrad import engine
from vkgrad.bench import results
from vkgrad.bench.contender import no_garbage_collection
from vkgrad.bench.results import digits


@dataclass(frozen=True)
class Parts:
    """Where the time of a step goes, in µs.

    host         Python: arguments, conditions, graphs; all that is none of the others
    record       recording commands; 0 for a recorded step
    write        the batch into memory that the device reads
    submit       handing over
    device       the kernels, by the device's clock, a moment before; never more than the step had time for
    wait         from handing over to knowing of the end, without `device`: the way there and back, copies, and what the
                 host still did meanwhile
    read         the loss, once its bytes are here
    """

    host: float
    record: float
    write: float
    submit: float
    device: float
    wait: float
    read: float

    @property
    def step(self) -> float:
        return sum(getattr(self, part.name) for part in fields(self))


class _Spent:
    """µs in each wrapped call since the last `clear`, and when the last submission returned."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.us = dict.fromkeys(("record", "write", "submit"), 0.0)
        self.handed_over = 0.0

    def wrapped(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            start = perf_counter()
            returned = method(*arguments)
            self.handed_over = perf_counter()
            self.us[name] += (self.handed_over - start) * 1e6
            return returned

        return timed

    def run(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """A `run` in Python, in which what is not `submit` is bringing the arguments over."""

        def timed(recording: Any, arrays: Sequence[Any], *before: Any) -> Any:
            submitted, start = self.us["submit"], perf_counter()
            returned = method(recording, arrays, *before)
            self.handed_over = perf_counter()
            if arrays:
                self.us["write"] += (self.handed_over - start) * 1e6 - (self.us["submit"] - submitted)
            return returned

        return timed

    def native_run(self, replay: Any, *arguments: Any) -> int:
        """Instead of `Replay.run`."""
        ticket, write_us, submit_us = replay.timed_run(*arguments)
        self.handed_over = perf_counter()
        self.us["write"] += write_us if arguments[1:] else 0.0
        self.us["submit"] += submit_us
        return int(ticket)


@contextmanager
def _watching(recording: Any) -> Iterator[_Spent]:
    spent, owner, replay = _Spent(), type(recording), getattr(recording, "replay", None)
    calls: list[tuple[Any, str, Callable[..., Any]]] = [
        (type(recording.device), "record", spent.wrapped("record", type(recording.device).record)),
        *((owner, name, spent.wrapped(name, getattr(owner, name))) for name in ("write", "submit")),
    ]
    if replay is not None:
        calls.append((type(replay), "run", lambda *arguments: spent.native_run(*arguments)))
    else:
        calls.append((owner, "run", spent.run(owner.run)))
    honest = [(place, name, getattr(place, name)) for place, name, _ in calls]
    for place, name, call in calls:
        setattr(place, name, call)
    try:
        yield spent
    finally:
        for place, name, call in honest:
            setattr(place, name, call)


def decompose(step: Callable[[], Any], read: Callable[[], Any], device_us: float, steps: int) -> Parts:
    """The parts of `step`, then waiting for it, then `read`: means over the middle half of `steps` by length.

    `device_us` is what the step's kernels take by the device's clock.
    """
    recording = _last_recording(step)
    inside = recording.device.kind == "cpu"  # there the kernels run while they are handed over
    samples: list[Parts] = []
    with no_garbage_collection(), _watching(recording) as spent:
        for _ in range(steps):
            spent.clear()
            start = perf_counter()
            step()
            handed_over = spent.handed_over
            engine.synchronize()
            over = perf_counter()
            calls = spent.us.copy()  # a submission that reading asks for is part of reading
            read()
            end = perf_counter()
            spent_us = sum(calls.values())
            submit, wait = calls["submit"], (over - handed_over) * 1e6
            device = min(device_us, submit if inside else wait)  # on a busy machine it may have been slower before
            samples.append(
                Parts(
                    host=(handed_over - start) * 1e6 - spent_us,
                    record=calls["record"],
                    write=calls["write"],
                    submit=submit - device if inside else submit,
                    device=device,
                    wait=wait if inside else wait - device,
                    read=(end - over) * 1e6,
                )
            )
    samples.sort(key=lambda parts: parts.step)
    middle = samples[len(samples) // 4 : len(samples) - len(samples) // 4]
    return Parts(**{part.name: sum(getattr(one, part.name) for one in middle) / len(middle) for part in fields(Parts)})


def _last_recording(step: Callable[[], Any]) -> Any:
    seen: list[Any] = []

    def watch(plan: Any, recording: Any) -> None:
        seen.append(recording)

    engine.on_flush.append(watch)
    try:
        step()
        engine.synchronize()
    finally:
        engine.on_flush.remove(watch)
    return seen[-1]


def table(named: Sequence[tuple[str, Parts]]) -> str:
    names = [part.name for part in fields(Parts)]
    rows = [[label, *(digits(getattr(parts, name)) for name in names), digits(parts.step)] for label, parts in named]
    return results.table(["µs of a step", *names, "step"], rows)
