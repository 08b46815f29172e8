"""Pictures show every node and dispatch, compute nothing, and are well-formed in each form."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import networkx as nx
import numpy as np
import pytest

import vkgrad as vg
from vkgrad.errors import ConfigError
from vkgrad.viz.picture import STYLES

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def layer() -> vg.Tensor:
    x = vg.tensor(np.ones((5, 3), np.float32))
    weight = vg.tensor(np.ones((3, 4), np.float32))
    return vg.softmax(vg.tanh(x @ weight + vg.tensor(np.ones(4, np.float32))) * 0.5)


def boxes_of(svg: str) -> list[str]:
    """The hover text of each box."""
    return [group.findtext(f"{SVG}title", "") for group in ElementTree.fromstring(svg).iter(f"{SVG}g")][1:]


def test_networkx_view_is_the_graph(layer: vg.Tensor) -> None:
    view = vg.to_networkx(layer)
    assert nx.is_directed_acyclic_graph(view)
    ops = [data["op"] for _, data in view.nodes(data=True)]
    assert ops.count("contract") == 1 and ops.count("leaf") == 3 and ops.count("tanh") == 1
    assert view.nodes[layer.node]["shape"] == (5, 4)
    for source, target, data in view.edges(data=True):
        assert all(target.inputs[at] is source for at in data["positions"])
        assert len(data["positions"]) == target.inputs.count(source)


def test_looking_computes_nothing(layer: vg.Tensor) -> None:
    with vg.counting() as counts:
        vg.viz.graph(layer).svg()
        vg.viz.plan(layer).svg()
        vg.to_networkx(layer)
    assert (counts.flushes, counts.submissions, counts.dispatches) == (0, 0, 0)


def test_every_node_is_drawn_or_written_into_its_reader(layer: vg.Tensor) -> None:
    picture = vg.viz.graph(layer)
    shown = " ".join(line for box in picture.boxes.values() for line in box.lines).split()
    literals = 3  # 0.5, as a number of its own, as one of shape (1, 1), and repeated
    for data in dict(vg.to_networkx(layer).nodes(data=True)).values():
        name = "value" if data["op"] == "leaf" else data["op"]
        assert any(word.startswith(name) for word in shown) or name == "constant", name
    assert "multiply(·," in shown and "0.5)" in shown
    assert f"{literals} of them literals" in picture.title
    assert len(boxes_of(picture.svg())) == len(picture.boxes)


def test_plan_has_a_card_for_each_dispatch_and_a_line_for_each_barrier(layer: vg.Tensor) -> None:
    plan = vg.plan(layer)
    picture = vg.viz.plan(layer)
    cards = [key for key in picture.boxes if key[0] == "kernel"]  # type: ignore[index]
    assert len(cards) == len(plan.kernels) > 1
    assert picture.svg().count(">barrier</text>") == plan.plan.depth - 1
    for number, kernel in enumerate(plan.kernels):
        key = ("kernel", number)
        assert sorted(at for _, at in picture.graph.predecessors(key)) == sorted(kernel.reads)
        assert sorted(at for _, at in picture.graph.successors(key)) == sorted(kernel.writes)


def test_several_tensors_and_nestings(layer: vg.Tensor) -> None:
    both = vg.viz.graph({"a": layer, "b": [layer + 1]})
    assert len(both.boxes) == len(vg.viz.graph(layer).boxes) + 1


def test_a_value_that_is_there_is_one_box() -> None:
    x = vg.tensor([1.0, 2.0])
    assert len(vg.viz.graph(x).boxes) == 1
    assert vg.viz.plan(x).title.startswith("0 nodes") or "0 dispatches" in vg.viz.plan(x).title


def test_a_plan_without_inputs_is_drawn() -> None:
    x = vg.ones((8, 8))
    picture = vg.viz.plan(vg.softmax(x @ x))
    assert not [box for box in picture.boxes.values() if box.style == "input"]
    ElementTree.fromstring(picture.svg())


def test_forms(layer: vg.Tensor, tmp_path: Path) -> None:
    picture = vg.viz.plan(layer)
    assert picture._repr_svg_() == (picture.svg(), {"alt": picture.title})
    assert repr(picture) == f"Picture: {picture.title}; .save(path) writes it to a file"
    ElementTree.fromstring(picture.save(tmp_path / "plan.svg").read_text())
    page = picture.save(tmp_path / "plan.html").read_text()
    assert "<svg" in page and "dispatches in" in page and not re.findall(r'(?:src|href)="', page)
    dot = picture.save(str(tmp_path / "plan.dot")).read_text()
    assert dot.count(" -> ") == picture.graph.number_of_edges()
    assert dot.count("[label=") == len(picture.boxes)
    assert dot.count("subgraph cluster_") == len(picture.bands)
    with pytest.raises(ConfigError, match=r"\.svg, \.html, \.dot"):
        picture.save(tmp_path / "plan.png")


def test_text_is_escaped(layer: vg.Tensor) -> None:
    less = vg.where(layer < 0.5, layer, 1.0)
    for text in (vg.viz.graph(less).svg(), vg.viz.graph(less).html().split("<body>")[1].split("<pre>")[0]):
        ElementTree.fromstring(text.strip())


def test_every_family_has_a_style() -> None:
    from vkgrad.ir.op import Family

    assert {family.value for family in Family} <= set(STYLES)


def test_deep_graphs_need_no_recursion_and_too_large_ones_are_refused() -> None:
    x = y = vg.tensor([1.0])
    for _ in range(1500):
        y = vg.sin(y) + x
    assert len(vg.to_networkx(y)) == 3001
    with pytest.raises(ConfigError, match="3001 boxes are too many"):
        vg.viz.graph(y)
    for _ in range(150):
        x = vg.sin(x)
    vg.viz.graph(x).svg()


# ---- differentiation
def test_differentiation_adds_to_what_was_there() -> None:
    x = vg.tensor([1.0, 2.0, 3.0])
    album = vg.viz.autodiff(lambda x: vg.sum(vg.exp(vg.sin(x))), x)
    before, after = album
    assert not any(box.hollow for box in before.boxes.values())
    hollow = [box for box in after.boxes.values() if box.hollow]
    assert len(hollow) >= len(before.boxes) - 1  # the result may have become a part of the gradient
    added = " ".join(line for box in after.boxes.values() if not box.hollow for line in box.lines)
    assert "cos" in added and "sin" not in added.split()
    assert album["after differentiation"] is after


def test_an_album_is_one_page(layer: vg.Tensor, tmp_path: Path) -> None:
    album = vg.viz.Album({"a": vg.viz.graph(layer), "b < c": vg.viz.plan(layer)})
    page = album.save(tmp_path / "both.html").read_text()
    assert page.count("<svg") == len(album) == 2 and "b &lt; c" in page
    with pytest.raises(ConfigError, match=r"\.html"):
        album.save(tmp_path / "both.svg")


def test_pictures_hold_no_values() -> None:
    """A picture that is kept must not keep memory of the device."""
    x = vg.tensor([1.0]) + 1.0
    picture = vg.viz.graph(x)
    assert all(isinstance(key, int) for key in picture.boxes)


# ---- memory
def chain() -> vg.Tensor:
    """Products that cannot be fused, so that each is a temporary for a while."""
    x = vg.tensor(np.ones((16, 16), np.float32))
    for _ in range(5):
        x = x @ x
    return x


def test_the_memory_map_shows_every_temporary_where_it_is() -> None:
    found = vg.viz.memory(chain())
    buffers = [(n, b) for n, b in enumerate(found.plan.buffers) if b.kind == "temporary"]
    assert [life.number for life in found.lives] == [number for number, _ in buffers]
    assert len(buffers) > 2
    for life in found.lives:
        assert life.first <= life.last < found.plan.depth
        assert life.offset + life.size_bytes <= found.plan.arena_bytes
    assert max(found.live_bytes()) <= found.plan.arena_bytes
    hovers = [each.text or "" for each in ElementTree.fromstring(found.svg()).iter(f"{SVG}title")]
    assert sum(hover.startswith("temporary") for hover in hovers) == len(buffers)


def test_no_two_temporaries_share_bytes_while_both_live() -> None:
    found = vg.viz.memory(chain()).lives
    shared = 0
    for number, one in enumerate(found):
        for other in found[number + 1 :]:
            in_space = one.offset < other.offset + other.size_bytes and other.offset < one.offset + one.size_bytes
            in_time = one.first <= other.last and other.first <= one.last
            assert not (in_space and in_time)
            shared += in_space
    assert shared  # else this proves nothing


def test_a_plan_without_temporaries_has_a_map() -> None:
    found = vg.viz.memory(vg.tensor([1.0]) + 1.0)
    assert found.title.startswith("0 temporaries")
    ElementTree.fromstring(found.svg())


# ---- dark and light
def test_every_colour_has_its_dark_counterpart(layer: vg.Tensor) -> None:
    svg = vg.viz.plan(layer).svg()
    dark = svg.partition("prefers-color-scheme: dark")[2].partition("</style>")[0]
    for name in set(re.findall(r'class="([\w-]+)', svg)) - {"vkgrad"}:
        assert f".{name}{{" in dark, name


def test_a_plan_in_which_the_host_takes_part_is_drawn() -> None:
    if vg.default_device().kind != "vulkan":
        pytest.skip("nothing is left to the host by the cpu device")
    x = vg.tensor(np.ones((130, 130), np.float32))
    with vg.host_policy("allow"):
        y = vg.exp(vg.linalg.eigh(x + 1.0)[0])
        picture = vg.viz.plan(y)
        assert len(vg.plan(y).kernels) == 2 and [key for key in picture.boxes if key[0] == "kernel"] == [("kernel", 0)]  # type: ignore[index]
        ElementTree.fromstring(picture.svg())
