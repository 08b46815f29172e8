"""The report of a step is one file, shows everything that ran and changes nothing; colours leave GLSL as it is."""

from __future__ import annotations

import html
import re
from pathlib import Path

import numpy as np
import pytest

import vkgrad as vg
from vkgrad import engine
from vkgrad.config import config
from vkgrad.errors import ConfigError, UnsupportedError
from vkgrad.reporting import watching
from vkgrad.reporting.glsl import highlighted

pytestmark = pytest.mark.device


@pytest.fixture(params=[None, "cpu"])
def device(request: pytest.FixtureRequest):
    with config.override(device=request.param or config.device):
        yield engine.default_device()


class Training:
    def __init__(self) -> None:
        vg.manual_seed(0)
        random = np.random.default_rng(0)
        self.x, self.y = random.random((8, 5), np.float32), random.random((8, 3), np.float32)
        self.model = vg.nn.Linear(5, 3)
        self.optimizer = vg.optim.Adam(self.model, lr=0.1)
        vg.eval(list(self.model.parameters()))
        self.recorded = vg.jit(self.step)

    def step(self) -> vg.Tensor:
        loss, gradients = vg.value_and_grad(lambda m: vg.mean((m(self.x) - self.y) ** 2))(self.model)
        self.optimizer.update(self.model, gradients)
        return loss

    def weights(self) -> list[np.ndarray]:
        return [p.numpy() for p in self.model.parameters()]


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page))


def test_everything_that_ran_is_on_the_page(device, tmp_path: Path) -> None:
    training = Training()
    page = vg.report(training.recorded, tmp_path / "step.html").read_text()
    for heading in ("before differentiation", "everything that is computed", "Plan", "Timeline", "Memory", "Kernels"):
        assert heading in page
    assert page.count("<details id=") == len(re.findall(r'<tr><td><a href="#plan0-kernel', page)) > 0
    assert ("void main()" in text_of(page)) == (device.kind == "vulkan")


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    page = vg.report(Training().recorded, tmp_path / "step.html").read_text()
    assert "<script" not in page and "@import" not in page and "url(" not in page.replace("url(#", "")
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    names = set(re.findall(r'id="([^"]+)"', page))
    links = re.findall(r'href="#([^"]+)"', page)
    assert links and set(links) <= names


def test_a_reported_step_is_taken_once(device, tmp_path: Path) -> None:
    plain, reported = Training(), Training()
    for _ in range(2):
        plain.recorded()
        vg.report(reported.recorded, tmp_path / "step.html")
    assert all(np.array_equal(a, b) for a, b in zip(plain.weights(), reported.weights(), strict=True))


def test_a_step_that_was_recorded_before_has_no_graph_and_says_so(tmp_path: Path) -> None:
    training = Training()
    training.recorded()
    page = vg.report(training.recorded, tmp_path / "step.html").read_text()
    assert "recorded before anybody looked" in page and "Timeline" in page


def test_several_plans_are_told_apart_and_counted() -> None:
    with watching() as seen:
        for _ in range(3):
            x = vg.tensor(np.ones((4, 4), np.float32))
            vg.eval(x @ x)
        vg.eval(vg.sum(x))
    assert [one.count for one in seen] == [3, 1]


def test_without_differentiation_there_is_one_graph(tmp_path: Path) -> None:
    x = vg.tensor(np.ones((4, 4), np.float32))
    vg.eval(x)
    page = vg.report(lambda: vg.eval(x @ x), tmp_path / "product.html").read_text()
    assert "before differentiation" not in page and "everything that is computed" in page


def test_watchers_are_gone_afterwards(tmp_path: Path) -> None:
    from vkgrad import autodiff

    def broken() -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        vg.report(broken, tmp_path / "step.html")
    vg.report(Training().recorded, tmp_path / "step.html")
    assert (engine.on_plan, engine.on_flush, autodiff.on_vjp) == ([], [], [])


def test_what_cannot_be_reported_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="submitted no kernels"):
        vg.report(lambda: None, tmp_path / "step.html")
    with pytest.raises(ConfigError, match=r"\.html"):
        vg.report(lambda: None, tmp_path / "step.pdf")


def test_roofs_add_columns(tmp_path: Path) -> None:
    from vkgrad.bench.peaks import Peaks

    page = vg.report(Training().recorded, tmp_path / "step.html", roofs=Peaks(10.0, 100.0, 9.0)).read_text()
    assert "of roof" in page and "copies 10.0 GB/s" in page


# ---- GLSL
def test_highlighting_changes_no_letter() -> None:
    source = (
        '#version 450\nlayout(binding = 0) buffer B0 { float b0[]; }; // <"&\nvoid main() { b0[0x1fu] = 1.5e-3; }\n'
    )
    assert text_of(highlighted(source)) == source


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("float", "type"),
        ("uvec4", "type"),
        ("uint16_t", "type"),
        ("for", "keyword"),
        ("// words", "comment"),
        ("/* two\nlines */", "comment"),
        ("#extension GL_KHR_x : require", "directive"),
        ("1.5e-3", "number"),
        ("0x1fu", "number"),
        ("gl_GlobalInvocationID", "builtin"),
    ],
)
def test_kinds_of_words(text: str, kind: str) -> None:
    assert highlighted(text) == f'<i class="{kind}">{text}</i>'


def test_words_inside_others_are_left_alone() -> None:
    assert "<i" not in highlighted("floats forty x1 info")
