"""Every environment switch of vkgrad: its name, its default, its allowed values and what it means.

Reading a switch is attribute access, `config.fuse`. The environment is read once per switch, at its first use, so that
importing the package never fails on a bad variable. `config.set(fuse=False)` changes a switch for the whole process,
`with config.override(fuse=False):` only inside the block. This module must not know what any switch does to the
program: it parses and hands out values.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar, overload

from vkgrad.errors import ConfigError

T = TypeVar("T")

# A block's overrides belong to its thread or task: one thread's `override` must not change another's plan.
_overrides: ContextVar[Mapping[str, Any]] = ContextVar("vkgrad_overrides", default=MappingProxyType({}))


class Switch(Generic[T]):
    """One environment variable, read as an attribute of `Config`.

    `parse` turns text into the value and raises `ValueError` on text it does not take; `allowed` says in words what
    it takes. The empty text always means the default.
    """

    def __init__(
        self, variable: str, parse: Callable[[str], T], default: Callable[[], T], shown: str, allowed: str, meaning: str
    ) -> None:
        self.variable = variable
        self.parse = parse
        self.default = default
        self.shown_default = shown
        self.allowed = allowed
        self.meaning = meaning

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Switch[T]: ...
    @overload
    def __get__(self, instance: Config, owner: type) -> T: ...
    def __get__(self, instance: Config | None, owner: type) -> Switch[T] | T:
        if instance is None:
            return self
        value: T
        name = self.name
        overrides = _overrides.get()
        if overrides and name in overrides:
            value = overrides[name]
        else:
            values = instance._values  # looked up once: `set` may replace it meanwhile
            if name not in values:
                values[name] = self.read(os.environ.get(self.variable, ""))
            value = values[name]
        return value

    def __set__(self, instance: Config, value: T) -> None:
        raise AttributeError(
            f"config.{self.name} is read-only; use config.set({self.name}=...) or config.override(...)"
        )

    def read(self, text: str) -> T:
        """The value that `text` stands for. Raises `ConfigError` naming the variable and what it allows."""
        if not text.strip():
            return self.default()
        try:
            return self.parse(text.strip())
        except ValueError:
            raise ConfigError(f"{self.variable}={text!r} is not allowed; it takes {self.allowed}") from None

    def accept(self, value: object) -> T:
        """Check a value given in code by the same rule as the environment's text."""
        return self.read(as_text(value))


def as_text(value: object) -> str:
    """A switch's value as one would write it in the environment."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, (set, frozenset, tuple, list)):
        return ",".join(sorted(str(item) for item in value))
    return str(value)


def choice(variable: str, *allowed: str, meaning: str) -> Switch[str]:
    """A switch that takes one of the `allowed` words; the first is the default."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(text)
        return text

    return Switch(variable, parse, lambda: allowed[0], allowed[0], "one of " + ", ".join(allowed), meaning)


def flag(variable: str, meaning: str) -> Switch[bool]:
    """A switch that is on unless set to 0."""

    def parse(text: str) -> bool:
        if text not in ("0", "1"):
            raise ValueError(text)
        return text == "1"

    return Switch(variable, parse, lambda: True, "1", "1 (on) or 0 (off)", meaning)


def words(variable: str, *allowed: str, meaning: str) -> Switch[frozenset[str]]:
    """A switch that takes any of the `allowed` words, separated by commas; none by default."""

    def parse(text: str) -> frozenset[str]:
        chosen = frozenset(word.strip() for word in text.split(",") if word.strip())
        if not chosen <= set(allowed):
            raise ValueError(text)
        return chosen

    return Switch(variable, parse, frozenset, "", "a comma-separated list of " + ", ".join(allowed), meaning)


def _count(text: str) -> int:
    count = int(text)
    if count < 0:
        raise ValueError(text)
    return count


def _folder(text: str) -> Path:
    return Path(text).expanduser().absolute()


def user_cache_folder() -> Path:
    """Where this platform keeps a user's caches, with `vkgrad` appended."""
    stated = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(stated):  # the XDG specification says to ignore a relative one
        return Path(stated) / "vkgrad"
    try:
        home = Path.home()
    except RuntimeError as error:
        raise ConfigError("this user has no home folder to cache in; set VKGRAD_CACHE_DIR to a folder") from error
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "vkgrad"


class Row(NamedTuple):
    """One switch for a table: what `describe` yields, all text."""

    name: str
    default: str
    current: str
    meaning: str


class Config:
    """The switches and their values; `config` is the one instance that the package reads."""

    device = Switch(
        "VKGRAD_DEVICE",
        str,
        str,
        shown="",
        allowed="cpu, an index, or part of a device's name",
        meaning="Device to run on: empty for the first real GPU, else software Vulkan; `cpu` for NumPy; "
        "an index or part of a name as `python -m vkgrad info` lists them.",
    )
    host = choice(
        "VKGRAD_HOST",
        "raise",
        "warn",
        "allow",
        meaning="What happens to an operation with no kernel on the device: refuse it when the graph is built, "
        "or run it on the host with or without a warning.",
    )
    batch_max: Switch[int | None] = Switch(
        "VKGRAD_BATCH_MAX",
        _count,
        lambda: None,
        shown="",
        allowed="a whole number, or nothing for no limit",
        meaning="Most dispatches in one submission; empty for no limit, 0 to submit each dispatch alone. "
        "Results are the same, bit for bit.",
    )
    fuse = flag("VKGRAD_FUSE", "Fuse element-wise operations into one kernel. Results are the same, bit for bit.")
    cse = flag("VKGRAD_CSE", "Compute equal expressions once.")
    debug = words(
        "VKGRAD_DEBUG",
        "plan",
        "glsl",
        "timing",
        meaning="Print to standard error at each flush: `plan` the schedule, `glsl` new shaders, `timing` each stage.",
    )
    cache_dir = Switch(
        "VKGRAD_CACHE_DIR",
        _folder,
        user_cache_folder,
        shown="the user's cache folder",
        allowed="a folder",
        meaning="Folder of compiled shaders and driver pipelines, kept between processes.",
    )
    f64 = flag("VKGRAD_F64", "Use float64 where the device has it; 0 refuses float64 on every Vulkan device.")
    matmul_acc = choice(
        "VKGRAD_MATMUL_ACC",
        "f32",
        "f64",
        meaning="Type in which a float32 matrix product adds up its terms.",
    )
    autocast = choice(
        "VKGRAD_AUTOCAST",
        "off",
        "float16",
        "bfloat16",
        meaning="Type in which products take float32 operands, as inside `vg.autocast`.",
    )
    tune = choice(
        "VKGRAD_TUNE",
        "0",
        "1",
        "2",
        meaning="How each kernel's row is chosen on a Vulkan device: 0 as the table says, 1 as was measured before, "
        "2 also measures each class of kernels that is new. The same cache gives the same bits.",
    )
    data: Switch[Path | None] = Switch(
        "VKGRAD_DATA",
        _folder,
        lambda: None,
        shown="",
        allowed="a folder",
        meaning="Folder searched for data sets before the places where system packages put them.",
    )

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._lock = threading.Lock()

    def set(self, **changes: object) -> None:
        """Change switches for the whole process, until changed again.

        Raises: `ConfigError` for an unknown switch or a value it does not take; then nothing was changed.
        """
        accepted = _accept(changes)
        with self._lock:
            # A new dictionary, not an update: a reader in another thread sees all of the changes or none.
            self._values = {**self._values, **accepted}

    def state(self) -> tuple[Any, Any]:
        """Two objects that stay the same two as long as no switch is changed."""
        return self._values, _overrides.get()

    @contextmanager
    def override(self, **changes: object) -> Iterator[Config]:
        """Change switches inside a `with` block, for this thread or task only.

        A thread started in the block does not inherit the change unless it runs in `contextvars.copy_context()`.

        Raises: `ConfigError` for an unknown switch or a value it does not take.

        Example:
            >>> with config.override(fuse=False, batch_max=4):
            ...     print(config.fuse, config.batch_max)
            False 4
        """
        token = _overrides.set(MappingProxyType({**_overrides.get(), **_accept(changes)}))
        try:
            yield self
        finally:
            _overrides.reset(token)

    def describe(self) -> Iterator[Row]:
        """Yield a `Row` for each switch, in the order of their definition, for documentation and `doctor`."""
        for switch in SWITCHES.values():
            yield Row(switch.variable, switch.shown_default, as_text(getattr(self, switch.name)), switch.meaning)


SWITCHES: Mapping[str, Switch[Any]] = MappingProxyType(
    {name: switch for name, switch in vars(Config).items() if isinstance(switch, Switch)}
)


def _accept(changes: Mapping[str, object]) -> dict[str, Any]:
    for name in changes:
        if name not in SWITCHES:
            raise ConfigError(f"there is no switch {name!r}; there are {', '.join(SWITCHES)}")
    return {name: SWITCHES[name].accept(value) for name, value in changes.items()}


# Read by the native runtime when it looks for Vulkan's loader, so it is no switch: nothing else ever asks.
LOADER_VARIABLE = "VKGRAD_LIBVULKAN"


def unknown_variables() -> list[str]:
    """Variables of the environment that look like switches of vkgrad and are none: a typing error that does nothing."""
    known = {LOADER_VARIABLE, *(switch.variable for switch in SWITCHES.values())}
    return sorted(name for name in os.environ if name.startswith("VKGRAD_") and name not in known)


config = Config()


def __getattr__(name: str) -> Any:
    """Of the module, whose name in the package hides the object: `vkgrad.config.override` was meant of that."""
    instead = "; write `from vkgrad.config import config`, which has it" if hasattr(Config, name) else ""
    raise AttributeError(f"module 'vkgrad.config' has no attribute {name!r}{instead}")
