"""Where the boxes of a layered drawing go: ranks from top to bottom, few crossings, straight edges.

Three steps, each a function: rows (`in_rows`), the order inside each row (`untangle`), and coordinates (`spread`). An
edge over several rows passes through a `Bend` in each row between, so that it bends around boxes instead of running
behind them. This module must not know what the boxes mean.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import networkx as nx

SWEEPS = 12  # passes over all rows, down and up by turns; drawings of a few hundred boxes settle in about eight
GAP_X, GAP_Y = 22.0, 44.0  # between neighbours of a row, and between rows


@dataclass(frozen=True)
class Bend:
    """A point in row `row` that the edge from `source` to `target` passes through."""

    source: Hashable
    target: Hashable
    row: int


@dataclass(frozen=True)
class Placement:
    """Centres of boxes and bends, the points of each edge from top to bottom, and the size of the whole."""

    centre: dict[Hashable, tuple[float, float]]
    paths: dict[tuple[Hashable, Hashable], list[tuple[float, float]]]
    rows: list[tuple[float, float]]  # top and bottom of each row
    width: float
    height: float


def longest_path_rows(graph: nx.DiGraph) -> dict[Hashable, int]:
    """A row for each node, below all it comes from; what comes from one place only stands right above its reader.

    That is: a node that comes from nothing, and a chain below it that nobody else reads. Otherwise everything that a
    late node needs would stand at the top, side by side, at the end of long edges.
    """
    row = {node: number for number, nodes in enumerate(nx.topological_generations(graph)) for node in nodes}
    order = list(nx.topological_sort(graph))
    falls: set[Hashable] = set()
    for node in order:
        if all(source in falls and graph.out_degree(source) == 1 for source in graph.predecessors(node)):
            falls.update({node} if graph.in_degree(node) <= 1 else ())
    for node in reversed(order):
        if node in falls and graph.out_degree(node):
            row[node] = min(row[reader] for reader in graph.successors(node)) - 1
    first = min(row.values())
    return {node: number - first for node, number in row.items()}


def place(
    graph: nx.DiGraph, size: Mapping[Hashable, tuple[float, float]], row: Mapping[Hashable, int] | None = None
) -> Placement:
    """Place the nodes of an acyclic graph.

    `size` is width and height of each node; `row` its row, from 0 (by the longest path where it is None).
    """
    if not graph:
        return Placement({}, {}, [], 0.0, 0.0)
    full, rows = in_rows(graph, longest_path_rows(graph) if row is None else row)
    untangle(full, rows)
    widths = {node: size[node][0] if node in size else 0.0 for node in full}
    x = spread(full, rows, widths)
    left = min(x[node] - widths[node] / 2 for node in full)
    centre: dict[Hashable, tuple[float, float]] = {}
    edges_of_rows = []
    top = 0.0
    for nodes in rows:
        height = max((size[node][1] for node in nodes if node in size), default=0.0)
        centre.update({node: (x[node] - left, top + height / 2) for node in nodes})
        edges_of_rows.append((top, top + height))
        top += height + GAP_Y if nodes else 0.0  # a row that nobody uses takes no room
    paths = {}
    for source, target in graph.edges:
        half_out, half_in = size[source][1] / 2, size[target][1] / 2
        points = [(centre[source][0], centre[source][1] + half_out)]
        for number in range(len(rows)):
            bend = Bend(source, target, number)
            if bend in centre:  # straight through the row, or it would graze its taller boxes
                points += [(centre[bend][0], end) for end in edges_of_rows[number]]
        paths[source, target] = [*points, (centre[target][0], centre[target][1] - half_in)]
    width = max(x[node] + widths[node] / 2 for node in full) - left
    return Placement(centre, paths, edges_of_rows, width, top - GAP_Y)


def in_rows(graph: nx.DiGraph, row: Mapping[Hashable, int]) -> tuple[nx.DiGraph, list[list[Hashable]]]:
    """The graph with a bend wherever an edge crosses a row, and its nodes by row, in the order of the graph."""
    rows: list[list[Hashable]] = [[] for _ in range(max(row.values()) + 1)]
    full: nx.DiGraph = nx.DiGraph()
    for node in graph:
        rows[row[node]].append(node)
        full.add_node(node)
    for source, target in graph.edges:
        previous = source
        for number in range(row[source] + 1, row[target]):
            bend = Bend(source, target, number)
            rows[number].append(bend)
            full.add_edge(previous, bend)
            previous = bend
        full.add_edge(previous, target)
    return full, rows


def untangle(full: nx.DiGraph, rows: list[list[Hashable]]) -> None:
    """Reorder each row so that few edges cross: a node moves to the mean place of its neighbours in the row before."""
    best, fewest = [list(nodes) for nodes in rows], crossings(full, rows)
    for sweep in range(SWEEPS):
        downwards = sweep % 2 == 0
        neighbours = full.predecessors if downwards else full.successors
        order = range(1, len(rows)) if downwards else range(len(rows) - 2, -1, -1)
        for number in order:
            beside = rows[number - 1 if downwards else number + 1]
            place_of = {node: at for at, node in enumerate(beside)}
            key = {}
            for at, node in enumerate(rows[number]):
                places = [place_of[other] for other in neighbours(node)]
                key[node] = sum(places) / len(places) if places else float(at)
            rows[number].sort(key=key.__getitem__)
        found = crossings(full, rows)
        if found < fewest:
            best, fewest = [list(nodes) for nodes in rows], found
    rows[:] = best


def crossings(full: nx.DiGraph, rows: Sequence[Sequence[Hashable]]) -> int:
    """How many pairs of edges cross between neighbouring rows."""
    total = 0
    for upper, lower in pairwise(rows):
        place_of = {node: at for at, node in enumerate(lower)}
        ends: list[int] = []  # of all edges, sorted by their upper ends: each later, smaller one is a crossing
        for node in upper:
            mine = sorted(place_of[other] for other in full.successors(node) if other in place_of)
            total += sum(end > other for other in mine for end in ends)
            ends += mine
    return total


def spread(
    full: nx.DiGraph, rows: Sequence[Sequence[Hashable]], widths: Mapping[Hashable, float]
) -> dict[Hashable, float]:
    """x of each node: as near to the mean of its neighbours as the order and the gaps of its row allow."""
    x: dict[Hashable, float] = {}
    for nodes in rows:
        at = 0.0
        for node in nodes:
            x[node] = at + widths[node] / 2
            at += widths[node] + GAP_X
        for node in nodes:
            x[node] -= at / 2
    for _ in range(SWEEPS):
        for nodes in (*rows, *reversed(rows)):
            wanted = []
            for node in nodes:
                beside = [x[other] for other in (*full.predecessors(node), *full.successors(node))]
                wanted.append(sum(beside) / len(beside) if beside else x[node])
            gaps = [(widths[a] + widths[b]) / 2 + GAP_X for a, b in pairwise(nodes)]
            x.update(zip(nodes, apart(wanted, gaps), strict=True))
    return x


def apart(wanted: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """The places nearest to `wanted` (least squares) in which neighbours are at least `gaps` apart.

    Subtracting the gaps turns "at least a gap apart" into "never decreasing", which pooling neighbours that are out of
    order solves exactly.

    Example:
        >>> apart([0.0, 0.0, 9.0], [2.0, 2.0])
        [-1.0, 1.0, 9.0]
    """
    shifts = [sum(gaps[:number]) for number in range(len(wanted))]
    pools: list[tuple[float, int]] = []  # mean and number of each run of touching neighbours
    for place_wanted, shift in zip(wanted, shifts, strict=True):
        mean, count = place_wanted - shift, 1
        while pools and pools[-1][0] > mean:
            other, others = pools.pop()
            mean, count = (mean * count + other * others) / (count + others), count + others
        pools.append((mean, count))
    flat = [mean for mean, count in pools for _ in range(count)]
    return [mean + shift for mean, shift in zip(flat, shifts, strict=True)]
