"""Rendered shaders on disk: the same shader, found by all that it depends on and by nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import vkgrad as vg
from tests.planned import plan_of
from vkgrad.codegen import rendered as module
from vkgrad.codegen.render import Shader, render
from vkgrad.codegen.rendered import key_of, on_disk, rendered
from vkgrad.codegen.rows import Limits
from vkgrad.config import config
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import float32
from vkgrad.ir.op import OPS
from vkgrad.ops.sources import leaf
from vkgrad.schedule.kernel import Kernel

LIMITS = Limits(software=True)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path):
    with config.override(cache_dir=tmp_path):
        yield


def kernel(name: str = "exp", extent: int = 6, literal: float = 2.0) -> Kernel:
    (found,) = plan_of([b.apply(name, leaf((extent,), float32)) * literal])[0].kernels
    assert isinstance(found, Kernel)
    return found


def refuse() -> Shader:
    raise AssertionError("rendered anew")


def test_what_was_rendered_before_is_read() -> None:
    for own in (kernel(), kernel("tanh"), kernel(extent=7)):
        honest = render(own, LIMITS)
        assert rendered(own, LIMITS, [""], lambda own=own: render(own, LIMITS)) == honest  # type: ignore[misc]
        assert rendered(own, LIMITS, [""], refuse) == honest
    assert rendered(replace(kernel(), slots=(7, 9)), LIMITS, [""], refuse) == render(kernel(), LIMITS)


def test_all_that_it_depends_on_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {
        key_of(kernel(), LIMITS, [""]),
        key_of(kernel("tanh"), LIMITS, [""]),
        key_of(kernel(extent=7), LIMITS, [""]),
        key_of(kernel(literal=3.0), LIMITS, [""]),
        key_of(kernel(), replace(LIMITS, subgroup=8), [""]),
        key_of(kernel(), LIMITS, ["another row"]),
    }
    kept = OPS["exp"].glsl
    object.__setattr__(OPS["exp"], "glsl", "exp2({x})")
    keys.add(key_of(kernel(), LIMITS, [""]))
    object.__setattr__(OPS["exp"], "glsl", kept)
    monkeypatch.setattr(module, "version", lambda: "other templates")
    keys.add(key_of(kernel(), LIMITS, [""]))
    assert len(keys) == 8


def test_a_damaged_file_is_rendered_anew() -> None:
    own = kernel()
    honest = rendered(own, LIMITS, [""], lambda: render(own, LIMITS))
    (path,) = on_disk().folder.iterdir()
    path.write_bytes(path.read_bytes().replace(b"#version 450", b"#version 460"))
    with pytest.raises(AssertionError, match="rendered anew"):
        rendered(own, LIMITS, [""], refuse)
    assert rendered(own, LIMITS, [""], lambda: render(own, LIMITS)) == honest


@pytest.mark.device
def test_a_second_process_renders_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from collections import OrderedDict

    from vkgrad import engine
    from vkgrad.runtime import vulkan

    if engine.device().kind != "vulkan":
        pytest.skip("the cpu device has no shaders")
    x = vg.tensor([[1.0, 2.0], [3.0, 4.0]])
    graphs = [lambda: vg.exp(x) * 0.75, lambda: x @ x, lambda: vg.softmax(x) - 0.5]
    before = [graph().tolist() for graph in graphs]
    for name in ("render", "render_stack"):
        monkeypatch.setattr(vulkan, name, lambda *_: refuse())
    monkeypatch.setattr(engine, "_plans", OrderedDict())
    assert [graph().tolist() for graph in graphs] == before
    monkeypatch.setattr(engine, "_plans", OrderedDict())
    with pytest.raises(AssertionError, match="rendered anew"):
        (vg.exp(x) - 0.625).tolist()
