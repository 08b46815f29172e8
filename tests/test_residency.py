"""The register of what stays on the device: complete, and a drift in either direction is an error of the command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import vkgrad as vg
from vkgrad.cli import main, residency
from vkgrad.config import config
from vkgrad.ir.op import OPS, HostRule


def test_the_register_has_all_that_the_records_allow() -> None:
    """Every op, type and direction is resident; what the host does are sizes, and those are host rules."""
    assert residency.registered() == set(residency.places())


def test_what_has_no_derivative_has_one_direction() -> None:
    directions = {(op, direction) for op, _, direction in residency.places()}
    assert ("exp", "jvp") in directions and ("argsort", "reverse") not in directions


@pytest.fixture
def vulkan() -> None:
    if vg.default_device().kind == "cpu":
        pytest.skip("the cpu device is the host")


@contextmanager
def hosted(name: str) -> Iterator[None]:
    """A device without a kernel for one op."""
    kept = OPS[name].host_rule
    forced = HostRule(condition="always", reason="this test says so", applies=lambda shapes, **_: True)
    object.__setattr__(OPS[name], "host_rule", forced)
    try:
        yield
    finally:
        object.__setattr__(OPS[name], "host_rule", kept)


@pytest.mark.device
def test_no_drift(vulkan: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["residency", "floor", "argsort", "sum"]) == 0
    text = capsys.readouterr().out
    assert "as the register says" in text
    first = text.split()
    assert first[0] == first[2] and "op x dtype x direction resident on" in text
    for rule in vg.host_rules():
        assert f"host rule: {rule.op} with {rule.condition}: {rule.reason}" in text


@pytest.mark.device
def test_an_op_on_the_host_is_a_drift(vulkan: None, capsys: pytest.CaptureFixture[str]) -> None:
    with hosted("sigmoid"):
        assert main(["residency", "sigmoid"]) == 1
    text = capsys.readouterr().out
    for direction in residency.DIRECTIONS:
        assert f"left the device: sigmoid float32 {direction}\n" in text
    assert text.startswith("0 of 12 ")


@pytest.mark.device
def test_a_derivative_through_a_hosted_op_is_a_drift(vulkan: None, capsys: pytest.CaptureFixture[str]) -> None:
    """softplus itself stays, and its derivative, a sigmoid, leaves."""
    with hosted("sigmoid"):
        assert main(["residency", "softplus"]) == 1
    text = capsys.readouterr().out
    assert "left the device: softplus float32 reverse\n" in text
    assert "softplus float32 forward" not in text


@pytest.mark.device
def test_what_arrives_unannounced_is_a_drift(
    vulkan: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(residency, "REGISTER", tmp_path / "residency.json")
    residency.write({("floor", "float32", "forward")}, residency.REGISTER)
    assert main(["residency", "floor"]) == 1
    assert "resident, but not in the register: floor float16 forward\n" in capsys.readouterr().out
    assert main(["residency", "floor", "--write"]) == 0
    assert main(["residency", "floor"]) == 0


def test_the_cpu_device_has_no_residency(capsys: pytest.CaptureFixture[str]) -> None:
    with config.override(device="cpu"):
        assert main(["residency", "exp"]) == 1
    assert "about a Vulkan device" in capsys.readouterr().out
