"""Products of matrices in every orientation, rank and layout, and einsum, against NumPy in double precision."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import vkgrad as vg
from tests.variants import close, draw, layouts
from vkgrad.errors import ShapeError


def _exact(function, *arrays: np.ndarray) -> np.ndarray:
    return np.asarray(function(*(array.astype(np.float64) for array in arrays))).astype(np.float32)


SHAPES = [
    ((3, 4), (4, 2)),
    ((4,), (4, 2)),
    ((3, 4), (4,)),
    ((4,), (4,)),
    ((1, 4), (4, 1)),
    ((5, 3, 4), (5, 4, 2)),
    ((5, 3, 4), (4, 2)),
    ((3, 4), (5, 4, 2)),
    ((5, 1, 3, 4), (2, 4, 6)),
    ((1, 3, 4), (5, 4, 2)),
    ((2, 1, 3, 4), (2, 3, 4, 1)),
    ((1, 1, 3, 4), (1, 4, 2)),
    ((5, 3, 4), (4,)),
    ((4,), (5, 4, 2)),
    ((0, 4), (4, 2)),
    ((3, 0), (0, 2)),
    ((30, 17), (17, 23)),
    ((1, 1), (1, 1)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
def test_matmul(left: tuple, right: tuple) -> None:
    x, y = draw(*left), draw(*right, seed=1)
    close(vg.matmul(x, y), _exact(np.matmul, x, y), cost=4)
    close(vg.tensor(x) @ y, _exact(np.matmul, x, y), cost=4)
    close(x @ vg.tensor(y), _exact(np.matmul, x, y), cost=4)


def test_matmul_in_every_layout() -> None:
    for (one, x, a), (two, y, c) in product(layouts(draw(5, 7)), layouts(draw(7, 3, seed=1))):
        close(a @ c, _exact(np.matmul, x, y), cost=4, name=f"{one} @ {two}")


def test_matmul_of_integers_and_of_mixed_types() -> None:
    x, y = draw(3, 4, dtype=np.int32), draw(4, 2, dtype=np.int32, seed=1)
    close(vg.matmul(x, y), x @ y)
    assert vg.matmul(vg.tensor(x), vg.ones((4, 2))).dtype is vg.float32


def test_transposes_add_no_dispatch() -> None:
    x, y = vg.tensor(draw(5, 7)), vg.tensor(draw(3, 7, seed=1))
    vg.flush()
    with vg.counting() as counts:
        vg.eval(x @ y.T)
    assert counts.dispatches == 1


def test_a_batch_axis_that_only_broadcasts_is_not_copied() -> None:
    result = vg.ones((5, 3, 4)) @ vg.ones((1, 4, 2))
    contraction = result.node if result.node.is_op("contract") else result.node.inputs[0]
    assert [source.shape for source in contraction.inputs] == [(5, 3, 4), (4, 2)]


@pytest.mark.parametrize(("left", "right"), SHAPES[:14], ids=str)
@pytest.mark.usefixtures("on_cpu")
def test_gradients_of_matmul(left: tuple, right: tuple) -> None:
    x, y = draw(*left, dtype=np.float64), draw(*right, seed=1, dtype=np.float64)
    vg.testing.check_grads(vg.matmul, (vg.tensor(x), vg.tensor(y)))


EINSUMS = [
    ("ij,jk->ik", (3, 4), (4, 2)),
    ("ij,jk", (3, 4), (4, 2)),
    ("bij,bkj->bik", (2, 3, 4), (2, 5, 4)),
    ("i,i->", (3,), (3,)),
    ("i,j->ij", (3,), (4,)),
    ("ij->ji", (3, 4)),
    ("ij->", (3, 4)),
    ("ij->j", (3, 4)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("iij->ji", (3, 3, 2)),
    ("ij,ij->i", (3, 4), (3, 4)),
    ("ij,kl->ik", (3, 4), (2, 5)),
    ("...ij,...jk->...ik", (5, 3, 4), (4, 2)),
    ("...ij,...jk->...ik", (5, 1, 3, 4), (2, 4, 2)),
    ("...,...->...", (2, 3), (3,)),
    ("b...->...", (2, 3, 4)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ab,ac,bc->", (2, 3), (2, 4), (3, 4)),
    ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)),
    ("ij,jk->ik", (3, 1), (4, 2)),
    ("ijk->kij", (2, 3, 4)),
    ("i,->i", (3,), ()),
    ("ij,i->ij", (3, 4), (3,)),
]


@pytest.mark.parametrize("case", EINSUMS, ids=str)
def test_einsum(case: tuple) -> None:
    subscripts, *shapes = case
    arrays = [draw(*shape, seed=number) for number, shape in enumerate(shapes)]
    close(vg.einsum(subscripts, *arrays), _exact(lambda *x: np.einsum(subscripts, *x), *arrays), cost=8)


@pytest.mark.parametrize("case", EINSUMS, ids=str)
@pytest.mark.usefixtures("on_cpu")
def test_gradients_of_einsum(case: tuple) -> None:
    subscripts, *shapes = case
    arrays = [vg.tensor(draw(*shape, seed=number, dtype=np.float64)) for number, shape in enumerate(shapes)]
    vg.testing.check_grads(lambda *x: vg.einsum(subscripts, *x), tuple(arrays), order=1)


@pytest.mark.parametrize("bad", ["ij,jk->ik", "ij->ijk", "i->i", "ij->ii", "ij.->i", "...->..i", "ij->k", "i..j->i"])
def test_einsum_mistakes(bad: str) -> None:
    with pytest.raises(ShapeError, match="einsum"):
        vg.einsum(bad, vg.ones((2, 3)))


def test_einsum_sizes_that_differ() -> None:
    with pytest.raises(ShapeError, match="einsum: 'j' of 'ij,jk->ik' is both 4 and 5"):
        vg.einsum("ij,jk->ik", vg.ones((3, 4)), vg.ones((5, 2)))


def test_the_other_products() -> None:
    x, y, m = draw(3), draw(3, seed=1), draw(4, 3, 2)
    close(vg.outer(x, y), _exact(np.outer, x, y))
    close(vg.dot(x, y), _exact(np.dot, x, y), cost=4)
    close(vg.dot(m, draw(5, 2, 4)), _exact(np.dot, m, draw(5, 2, 4)), cost=4)
    close(vg.dot(x, 2.0), x * 2)
    close(vg.vecdot(draw(2, 3), y), _exact(lambda a, b: (a * b).sum(-1), draw(2, 3), y), cost=4)
    close(
        vg.vecdot(m, draw(4, 3, 2, seed=1), axis=1),
        _exact(lambda a, b: (a * b).sum(1), m, draw(4, 3, 2, seed=1)),
        cost=4,
    )
    close(vg.tensordot(m, draw(3, 2, 5)), _exact(np.tensordot, m, draw(3, 2, 5)), cost=8)
    axes = ((0, -1), (1, 0))
    close(vg.tensordot(m, draw(2, 4), axes), _exact(lambda a, b: np.tensordot(a, b, axes), m, draw(2, 4)), cost=8)
    close(vg.tensordot(x, y, 0), _exact(np.outer, x, y))


def test_mistakes_are_named() -> None:
    with pytest.raises(ShapeError) as error:
        vg.ones((3, 4)) @ vg.ones((5, 2))
    assert str(error.value) == (
        "matmul: inner sizes differ: (3, 4) @ (5, 2); axis -1 of the left must equal axis -2 of the right"
    )
    with pytest.raises(ShapeError, match=r"matmul: shapes .* do not broadcast"):
        vg.ones((2, 3, 4)) @ vg.ones((5, 4, 2))
    with pytest.raises(ShapeError, match="matmul: a number is no matrix"):
        vg.ones((3,)) @ vg.tensor(2.0)
    with pytest.raises(ShapeError, match="outer: takes two tensors of one axis"):
        vg.outer(vg.ones((2, 2)), vg.ones(2))
    with pytest.raises(ShapeError, match="vecdot: sizes differ"):
        vg.vecdot(vg.ones(2), vg.ones(3))
    with pytest.raises(ShapeError, match="tensordot: axes"):
        vg.tensordot(vg.ones((2, 3)), vg.ones((2, 3)), 1)
