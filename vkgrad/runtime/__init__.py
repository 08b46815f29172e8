"""Where plans run: a Vulkan device through Kompute, and a NumPy twin that runs the same plans on the CPU."""

from typing import Any


def __getattr__(name: str) -> Any:
    """Called at each import of the compiled part until it has been found."""
    if name != "_native":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        return import_module("vkgrad.runtime._native")
    except ModuleNotFoundError as error:
        if error.name != "vkgrad.runtime._native":
            raise
    from pathlib import Path

    from vkgrad.errors import NotBuiltError

    source = Path(__file__).parents[2]
    raise NotBuiltError(
        f"vkgrad is not built in {source}, where Python found its source. To use one that is installed, start Python "
        "in another folder, with the program elsewhere too; or build it there with script/bootstrap and use "
        ".venv/bin/python",
        name="vkgrad.runtime._native",
    ) from None
