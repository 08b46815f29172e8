"""Placement of layered drawings: nothing overlaps, edges go down, crossings are few and counted rightly."""

from __future__ import annotations

import random
from itertools import combinations

import networkx as nx
import numpy as np
import pytest

from vkgrad.viz import layers


def random_graph(seed: int, count: int = 40) -> nx.DiGraph:
    draw = random.Random(seed)
    graph: nx.DiGraph = nx.DiGraph()
    graph.add_nodes_from(range(count))
    for target in range(1, count):
        graph.add_edges_from((draw.randrange(max(0, target - 9), target), target) for _ in range(draw.randrange(3)))
    return graph


@pytest.mark.parametrize("seed", range(5))
def test_boxes_do_not_overlap_and_edges_go_down(seed: int) -> None:
    graph = random_graph(seed)
    draw = random.Random(seed)
    size = {node: (draw.uniform(30, 200), draw.uniform(20, 90)) for node in graph}
    placed = layers.place(graph, size)
    for a, b in combinations(graph, 2):
        (xa, ya), (xb, yb) = placed.centre[a], placed.centre[b]
        beside = abs(xa - xb) >= (size[a][0] + size[b][0]) / 2 + layers.GAP_X - 1e-6
        above = abs(ya - yb) >= (size[a][1] + size[b][1]) / 2
        assert beside or above, (a, b)
    for path in placed.paths.values():
        heights = [y for _, y in path]
        assert heights == sorted(heights)
    for node in graph:
        x, y = placed.centre[node]
        assert size[node][0] / 2 - 1e-6 <= x <= placed.width - size[node][0] / 2 + 1e-6
        assert 0 <= y <= placed.height


@pytest.mark.parametrize("seed", range(5))
def test_edges_pass_boxes_by(seed: int) -> None:
    graph = random_graph(seed)
    size = dict.fromkeys(graph, (80.0, 40.0))
    placed = layers.place(graph, size)
    for (source, target), path in placed.paths.items():
        for x, y in path[1:-1]:
            for node in set(graph) - {source, target}:
                centre_x, centre_y = placed.centre[node]
                assert not (abs(x - centre_x) < 40 and abs(y - centre_y) < 20), (source, target, node)


def test_crossings_are_counted() -> None:
    graph = nx.DiGraph([("a", "y"), ("b", "x"), ("c", "x"), ("c", "y")])
    assert layers.crossings(graph, [["a", "b", "c"], ["x", "y"]]) == 2
    assert layers.crossings(graph, [["b", "c", "a"], ["x", "y"]]) == 0


def test_untangling_never_adds_crossings_and_solves_a_simple_case() -> None:
    graph = nx.DiGraph([("a", "z"), ("b", "y"), ("c", "x")])
    rows: list[list[object]] = [["a", "b", "c"], ["x", "y", "z"]]
    layers.untangle(graph, rows)
    assert layers.crossings(graph, rows) == 0
    for seed in range(5):
        full, rows = layers.in_rows(random_graph(seed), layers.longest_path_rows(random_graph(seed)))
        before = layers.crossings(full, rows)
        layers.untangle(full, rows)
        assert layers.crossings(full, rows) <= before


def test_apart_is_the_least_squares_answer() -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        wanted, gaps = generator.normal(0, 5, 6), generator.uniform(0, 3, 5)
        found = np.array(layers.apart(list(wanted), list(gaps)))
        assert np.all(np.diff(found) >= gaps - 1e-9)
        cost = np.sum((found - wanted) ** 2)
        for _ in range(200):  # no allowed answer near by or far away is better
            other = found + generator.normal(0, generator.choice([0.01, 1.0]), 6)
            if np.all(np.diff(other) >= gaps):
                assert np.sum((other - wanted) ** 2) >= cost - 1e-9


def test_a_value_stands_right_above_its_reader() -> None:
    graph = nx.DiGraph([("x", "a"), ("a", "b"), ("b", "c"), ("w", "c")])
    assert layers.longest_path_rows(graph)["w"] == 2


def test_nothing_at_all() -> None:
    placed = layers.place(nx.DiGraph(), {})
    assert (placed.width, placed.height) == (0.0, 0.0)
