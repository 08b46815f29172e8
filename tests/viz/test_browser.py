"""Pages as a reader sees them, in Chromium: nothing is fetched, no words overlap, light and dark can both be read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib import image

import vkgrad as vg
from tests.viz import browser

pytestmark = [pytest.mark.browser, pytest.mark.device]


def model() -> vg.nn.Sequential:
    vg.manual_seed(0)
    return vg.nn.Sequential(
        vg.nn.Conv2d(1, 4, 3), vg.nn.ReLU(), vg.nn.MaxPool2d(2), vg.nn.Flatten(), vg.nn.Linear(36, 10)
    )


def loss_of(model: vg.nn.Module) -> vg.Tensor:
    images = np.random.default_rng(0).random((4, 1, 8, 8), np.float32)
    return vg.nn.cross_entropy(model(images), np.arange(4, dtype=np.int32))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    net = model()
    optimiser = vg.optim.Adam(net, lr=1e-3)
    vg.eval(list(net.parameters()))

    @vg.jit
    def training_step() -> vg.Tensor:
        loss, gradients = vg.value_and_grad(loss_of)(net)
        optimiser.update(net, gradients)
        return loss

    return vg.report(training_step, tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture(scope="module")
def pages(report: Path) -> dict[str, Path]:
    net = model()
    album = vg.viz.autodiff(loss_of, net)
    loss = loss_of(net)
    folder = report.parent
    return {
        "report": report,
        "graphs": album.save(folder / "graphs.html"),
        "graph": vg.viz.graph(loss).save(folder / "graph.html"),
        "plan": vg.viz.plan(loss).save(folder / "plan.html"),
        "memory": vg.viz.memory(loss).save(folder / "memory.html"),
    }


@pytest.mark.parametrize("name", ["report", "graphs", "graph", "plan", "memory"])
def test_words_stand_apart_and_nothing_is_fetched(pages: dict[str, Path], name: str) -> None:
    found = browser.looked_at(pages[name])
    assert found["texts"] > 5
    assert found["touching"] == []
    assert found["outside"] == []
    assert found["requests"] == 0


def test_the_report_is_no_wider_than_the_window(report: Path) -> None:
    assert browser.looked_at(report)["wide"] <= browser.WIDTH


def test_words_that_overlap_are_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        '<!doctype html><body><svg width="200" height="50"><text x="10" y="20">one word</text>'
        '<text x="20" y="22">another</text><text x="190" y="40">outside</text></svg>'
        '<img src="https://example.invalid/picture.gif"></body>'
    )
    found = browser.looked_at(page)
    assert found["touching"] == [["one word", "another"]]
    assert found["outside"] == ["outside"]
    assert found["requests"] == 1


@pytest.mark.parametrize("name", ["report", "graphs", "memory"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pictures(pages: dict[str, Path], name: str, dark: bool) -> None:
    """Paper and ink are far apart, in both; the picture is as wide as the window and has more than paper on it."""
    file = browser.picture(pages[name], f"{name}-{'dark' if dark else 'light'}", 4000, dark)
    pixels = image.imread(file)[..., :3].mean(axis=2)
    assert pixels.shape == (4000, browser.WIDTH)
    paper = pixels[2:6, 2:6].mean()
    assert paper < 0.2 if dark else paper > 0.9
    assert (abs(pixels - paper) > 0.5).sum() > 10_000
