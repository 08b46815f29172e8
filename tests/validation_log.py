"""Judge what Vulkan's validation layer wrote: `python tests/validation_log.py (clean|hazards) LOG`.

`clean` is the arm that must be free of complaints, `hazards` the arm with barriers left out, which must not be. Either
way the log has to show that the layer was there, with synchronization validation on: a layer that was never loaded
writes nothing too. Must not know vkgrad or Vulkan, only the layer's text.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

MESSAGE = re.compile(r"Validation (?P<severity>Error|Warning|Performance Warning): \[ (?P<name>\S+) \]")
ACTIVE = re.compile(r"Validation Layer Active:(?P<settings>.*?)Current Disables", re.DOTALL)
SYNCHRONIZATION = re.compile(r"SYNCHRONIZATION_VALIDATION|validate_sync")
DISPATCH = re.compile(r"(?<!VUID-)vkCmdDispatch")  # not the name of the next message, which may stand in front of it

# Messages to print when there are complaints, and characters of each: they are long and mostly alike.
SHOWN_COUNT = 5
SHOWN_LENGTH = 700


class UnusableLogError(Exception):
    """The log cannot tell whether there were hazards."""


class Verdict(NamedTuple):
    """What a log says: how often each kind of complaint came up."""

    hazards: Counter[str]
    dispatch_hazards: Counter[str]  # the hazards between dispatches, or a dispatch and something else
    errors: Counter[str]  # VUIDs and everything else that the layer calls an error, or that names a VUID
    warnings: Counter[str]

    def __str__(self) -> str:
        hazards, of_dispatches, errors, warnings = (counter.total() for counter in self)
        return f"{hazards} hazards ({of_dispatches} of dispatches), {errors} other errors, {warnings} warnings"


def read(log: str) -> Verdict:
    """Count the complaints in a log.

    Raises:
        UnusableLogError: the layer was not active, did not validate synchronization, or writes in an unknown form.
    """
    active = ACTIVE.search(log)
    if active is None:
        raise UnusableLogError("the validation layer was not loaded: the log does not say that it is active")
    if not SYNCHRONIZATION.search(active["settings"]):
        raise UnusableLogError("the validation layer ran without synchronization validation")
    verdict = Verdict(Counter(), Counter(), Counter(), Counter())
    messages = list(MESSAGE.finditer(log))
    for message, following in zip_longest(messages, messages[1:]):
        name = message["name"]
        if name.startswith("SYNC-HAZARD"):
            verdict.hazards[name] += 1
            if DISPATCH.search(log, message.end(), following.start() if following else len(log)):
                verdict.dispatch_hazards[name] += 1
        elif name.startswith("VUID-") or message["severity"] == "Error":
            verdict.errors[name] += 1
        else:
            verdict.warnings[name] += 1
    if (not verdict.hazards and "SYNC-HAZARD-" in log) or (not verdict.errors and "VUID-" in log):
        raise UnusableLogError("the log has complaints in a form that this script does not know: extend MESSAGE")
    return verdict


def judge(expectation: str, log: str) -> tuple[bool, str]:
    """Return whether the log is as expected, and the sentence to print."""
    try:
        verdict = read(log)
    except UnusableLogError as error:
        return False, str(error)
    if expectation == "hazards":
        if not verdict.dispatch_hazards:  # newer layers look at copies alone unless told otherwise
            return False, f"barriers were left out and the layer saw no hazard between dispatches: {verdict}"
        return True, f"with barriers left out: {verdict}"
    if verdict.hazards or verdict.errors:
        counts = [f"{count:6d} {name}" for name, count in (verdict.hazards + verdict.errors).most_common()]
        starts = [message.start() for message in MESSAGE.finditer(log)]
        texts = [log[start : start + SHOWN_LENGTH] for start in starts[:SHOWN_COUNT]]
        return False, "\n".join([str(verdict), *counts, *texts])
    return True, f"as shipped: {verdict}"


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] not in ("clean", "hazards"):
        print(__doc__, file=sys.stderr)
        return 2
    expectation, path = arguments
    passed, sentence = judge(expectation, Path(path).read_text(encoding="utf-8", errors="replace"))
    print(f"validation: {sentence}", file=sys.stdout if passed else sys.stderr)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
