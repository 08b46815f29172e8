"""The commands that run a script leave it as it is, show what it submitted, and say what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from vkgrad import engine
from vkgrad.cli import main, parser

pytestmark = pytest.mark.device

SCRIPT = """
import sys
import numpy as np
import vkgrad as vg
from beside import LEARNING_RATE

vg.manual_seed(0)
model = vg.nn.Linear(4, 3)
optimiser = vg.optim.SGD(model, lr=LEARNING_RATE)
x, labels = np.ones((8, 4), np.float32), np.zeros(8, np.int32)

@vg.jit
def step(x):
    loss, gradients = vg.value_and_grad(lambda model: vg.nn.cross_entropy(model(x), labels))(model)
    optimiser.update(model, gradients)
    return loss

if __name__ == "__main__":
    print("losses", *[f"{float(step(x)):.6f}" for _ in range(int(sys.argv[1]))])
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "beside.py").write_text("LEARNING_RATE = 0.1\n")
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    yield path
    sys.modules.pop("beside", None)


def losses(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("losses"))


def alone(script: Path) -> str:
    done = subprocess.run(
        [sys.executable, script, "4"], capture_output=True, text=True, timeout=120, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    return losses(done.stdout)


def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    commands = next(action for action in parser()._actions if action.dest == "command").choices
    assert {"info", "doctor", "bench", "residency", "plan", "viz", "profile", "report", "cache"} <= set(commands)
    for name in commands:
        with pytest.raises(SystemExit) as end:
            main([name, "--help"])
        assert end.value.code == 0
        assert f"python -m vkgrad {name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options", [["plan"], ["viz", "--out", "drawn"], ["profile"], ["report"]], ids=lambda options: options[0]
)
def test_the_program_does_what_it_does_alone(
    options: list[str], script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv, search = sys.argv, list(sys.path)
    assert main([*options, str(script), "4"]) == 0
    assert losses(capsys.readouterr().out) == alone(script)
    assert (sys.argv, sys.path, engine.on_flush, engine.on_plan) == (argv, search, [], [])


def test_plan(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(script), "4"]) == 0
    text = capsys.readouterr().out
    assert "run 4 times" in text and "dispatches in" in text


def test_viz(script: Path, tmp_path: Path) -> None:
    assert main(["viz", "--out", "drawn", str(script), "2"]) == 0
    names = {path.name.partition("-")[2] for path in (tmp_path / "drawn").iterdir()}
    assert names >= {"plan.svg", "memory.svg", "before-differentiation.svg", "everything-that-is-computed.svg"}
    for path in (tmp_path / "drawn").iterdir():
        ElementTree.fromstring(path.read_text())


def test_profile(script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "--trace", "trace.json", str(script), "3"]) == 0
    assert "FLOP/B" in capsys.readouterr().out
    assert len(json.loads((tmp_path / "trace.json").read_text())["traceEvents"]) > 3


def test_profile_with_roofs(script: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from vkgrad.bench import peaks

    monkeypatch.setattr(peaks, "measured", lambda: peaks.Peaks(10.0, 100.0, 9.0))
    assert main(["profile", "--roofs", str(script), "1"]) == 0
    text = capsys.readouterr().out
    assert "of roof" in text and "copies 10.0 GB/s" in text


def test_report(script: Path, tmp_path: Path) -> None:
    assert main(["report", "--out", "page.html", str(script), "2"]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "<h1>train.py</h1>" in page and "Timeline" in page


def test_mistakes_are_said(script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "nothing.py").write_text("print('nothing')\n")
    (tmp_path / "ends.py").write_text("import vkgrad as vg\nvg.eval(vg.tensor([1.0]) + 1)\nraise SystemExit(3)\n")
    for arguments, words in (
        (["plan", "absent.py"], "no script 'absent.py'"),
        (["plan", "nothing.py"], "submitted no kernels"),
        (["profile", "nothing.py"], "submitted no kernels"),
        (["report", "--out", "page.pdf", "train.py"], "one .html file"),
    ):
        assert main(arguments) == 1, arguments
        assert words in capsys.readouterr().err
    assert main(["plan", "ends.py"]) == 0
    assert "ends.py ended with 3" in capsys.readouterr().err


def test_an_error_of_the_program_is_its_own(script: Path, tmp_path: Path) -> None:
    (tmp_path / "breaks.py").write_text("1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        main(["plan", "breaks.py"])
    assert (engine.on_flush, engine.on_plan) == ([], [])
