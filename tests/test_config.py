"""Switches: parsing, refusing, scoping, and the table that documents them."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path

import pytest

from vkgrad.config import SWITCHES, Config, as_text, config, unknown_variables
from vkgrad.errors import ConfigError, VkgradError


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for switch in SWITCHES.values():
        monkeypatch.delenv(switch.variable, raising=False)


def test_defaults() -> None:
    fresh = Config()
    assert (fresh.device, fresh.host, fresh.batch_max) == ("", "raise", None)
    assert (fresh.fuse, fresh.cse, fresh.f64, fresh.matmul_acc) == (True, True, True, "f32")
    assert (fresh.debug, fresh.data) == (frozenset(), None)
    assert fresh.cache_dir.name == "vkgrad" and fresh.cache_dir.is_absolute()


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("VKGRAD_DEVICE", "cpu", "device", "cpu"),
        ("VKGRAD_DEVICE", " 1 ", "device", "1"),
        ("VKGRAD_HOST", "allow", "host", "allow"),
        ("VKGRAD_BATCH_MAX", "0", "batch_max", 0),
        ("VKGRAD_BATCH_MAX", "64", "batch_max", 64),
        ("VKGRAD_BATCH_MAX", "", "batch_max", None),
        ("VKGRAD_FUSE", "0", "fuse", False),
        ("VKGRAD_CSE", "1", "cse", True),
        ("VKGRAD_F64", "", "f64", True),
        ("VKGRAD_DEBUG", "plan, glsl", "debug", frozenset({"plan", "glsl"})),
        ("VKGRAD_MATMUL_ACC", "f64", "matmul_acc", "f64"),
        ("VKGRAD_DATA", "relative", "data", Path.cwd() / "relative"),
        ("VKGRAD_CACHE_DIR", "~/shaders", "cache_dir", Path.home() / "shaders"),
    ],
)
def test_environment(variable: str, text: str, name: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, text)
    assert getattr(Config(), name) == value


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("host", "maybe", "raise, warn, allow"),
        ("batch_max", "-1", "whole number"),
        ("batch_max", "many", "whole number"),
        ("fuse", "yes", r"1 \(on\) or 0 \(off\)"),
        ("debug", "plan,spirv", "plan, glsl, timing"),
        ("matmul_acc", "f16", "f32, f64"),
    ],
)
def test_refused_text_names_the_variable_and_what_it_takes(
    name: str, text: str, allowed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = SWITCHES[name].variable
    monkeypatch.setenv(variable, text)
    fresh = Config()  # a bad variable must not break the import
    with pytest.raises(ConfigError, match=f"^{variable}='{text}' is not allowed; it takes .*{allowed}") as caught:
        getattr(fresh, name)
    assert isinstance(caught.value, VkgradError) and isinstance(caught.value, ValueError)
    with pytest.raises(ConfigError, match=variable), fresh.override(**{name: text}):
        pass


def test_the_environment_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = Config()
    assert fresh.fuse
    monkeypatch.setenv("VKGRAD_FUSE", "0")
    assert fresh.fuse and not Config().fuse


def test_override_nests_and_ends() -> None:
    before = config.batch_max
    with config.override(batch_max=4, fuse=False) as inside:
        assert inside is config and (config.batch_max, config.fuse) == (4, False)
        with config.override(batch_max=None):
            assert (config.batch_max, config.fuse) == (None, False)
        assert config.batch_max == 4
    assert config.batch_max == before
    with pytest.raises(RuntimeError), config.override(batch_max=4):
        raise RuntimeError
    assert config.batch_max == before


def test_override_stays_in_its_thread_and_task() -> None:
    seen: list[object] = []
    outside = config.device
    with config.override(device="elsewhere"):
        thread = threading.Thread(target=lambda: seen.append(config.device))
        thread.start()
        thread.join()
    assert seen == [outside]

    async def within(name: str) -> str:
        with config.override(device=name):
            await asyncio.sleep(0)
            return config.device

    async def both() -> list[str]:
        return list(await asyncio.gather(within("a"), within("b")))

    assert asyncio.run(both()) == ["a", "b"]


def test_set_is_for_every_thread_and_under_override() -> None:
    fresh = Config()
    fresh.set(device="cpu", debug={"plan"})
    seen: list[object] = []
    thread = threading.Thread(target=lambda: seen.append((fresh.device, fresh.debug)))
    thread.start()
    thread.join()
    assert seen == [("cpu", frozenset({"plan"}))]
    with fresh.override(device=1):
        assert fresh.device == "1"
    with pytest.raises(ConfigError):
        fresh.set(device="gpu", fuse="perhaps")
    assert fresh.device == "cpu", "a refused change changes nothing"


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"no switch 'fusion'; there are .*fuse"):
        config.set(fusion=False)
    with pytest.raises(AttributeError, match=r"config\.set\(fuse="):
        config.fuse = False


def test_unknown_variables_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKGRAD_FUSE", "0")
    assert "VKGRAD_FUSE" not in unknown_variables()
    monkeypatch.setenv("VKGRAD_FUZE", "0")
    assert "VKGRAD_FUZE" in unknown_variables()


def test_describe_covers_every_switch_and_names_no_machine() -> None:
    rows = list(Config().describe())
    assert [row.name for row in rows] == [switch.variable for switch in SWITCHES.values()]
    assert len(rows) == 12 and all(row.meaning.endswith(".") for row in rows)
    assert not any("/" in row.default for row in rows)
    with config.override(debug="timing,plan", fuse=False):
        current = {row.name: row.current for row in config.describe()}
    assert (current["VKGRAD_DEBUG"], current["VKGRAD_FUSE"]) == ("plan,timing", "0")


def test_text_of_a_value_reads_back() -> None:
    fresh = Config()
    for name, switch in SWITCHES.items():
        assert switch.read(as_text(getattr(fresh, name))) == getattr(fresh, name)


def test_cache_folder_by_platform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setattr(sys, "platform", "linux")
    assert Config().cache_dir == tmp_path / ".cache" / "vkgrad"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert Config().cache_dir == tmp_path / "Library" / "Caches" / "vkgrad"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert Config().cache_dir == tmp_path / "Library" / "Caches" / "vkgrad"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert Config().cache_dir == tmp_path / "xdg" / "vkgrad"
