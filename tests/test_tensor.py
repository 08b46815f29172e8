"""The user's handle: where values come from and go to, what computes and what does not, `backward`."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import vkgrad as vg
from tests.variants import close, draw
from vkgrad.errors import DifferentiationError, DTypeError, ShapeError
from vkgrad.ir.node import walk


# ---- in
def test_python_numbers_have_default_types() -> None:
    for data, dtype in [
        (1.5, vg.float32), (2, vg.int32), (True, vg.bool_), ([1.0, 2], vg.float32), ([[1, 2]], vg.int32),
        ([], vg.float32), ((True, False), vg.bool_),
    ]:  # fmt: skip
        assert vg.tensor(data).dtype is dtype, data
        close(vg.tensor(data), np.asarray(data, dtype.numpy))


@pytest.mark.usefixtures("on_cpu")
def test_arrays_keep_their_type_in_any_layout_and_byte_order() -> None:
    for dtype in (np.float32, np.float64, np.int32, np.uint32, bool):
        array = draw(3, 4, dtype=dtype)
        for view in (array, array.T, array[::-1, ::2], np.broadcast_to(array[:1], (3, 4)), array[:0]):
            close(vg.tensor(view), view)
    close(vg.tensor(draw(3).astype(">f4")), draw(3))
    close(vg.tensor([np.float64(1.5)]), np.array([1.5]))


def test_a_tensor_has_a_copy() -> None:
    array = np.ones(3, np.float32)
    x = vg.tensor(array)
    array[:] = 2
    close(x, np.ones(3, np.float32))
    x.numpy()[:] = 3
    close(x, np.ones(3, np.float32))


def test_types_that_are_not_there_are_refused_with_a_way_out() -> None:
    with pytest.raises(DTypeError, match="no complex numbers: a complex tensor is"):
        vg.tensor(np.zeros(3, np.complex64))
    close(vg.tensor(np.arange(3), dtype=vg.int32), np.arange(3, dtype=np.int32))
    with pytest.raises(DTypeError, match="complex"):
        vg.tensor([1j])
    with pytest.raises(DTypeError, match="out of its range"):
        vg.tensor([2**31])
    with pytest.raises(ShapeError, match="unequal lengths"):
        vg.tensor([[1, 2], [3]])
    with pytest.raises(TypeError, match=r"vg\.stack"):
        vg.tensor([vg.ones(2), vg.ones(2)])


def test_asarray_does_not_copy_tensors() -> None:
    x = vg.ones(2)
    assert vg.asarray(x) is x
    assert vg.asarray(x, vg.float32) is x
    assert vg.asarray(x, vg.int32).dtype is vg.int32
    assert vg.tensor(x) is not x


class Foreign:
    """An object of another library, known by its DLPack methods alone."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: object) -> object:
        return self._array.__dlpack__(**options)  # type: ignore[arg-type]

    def __dlpack_device__(self) -> tuple:
        return self._array.__dlpack_device__()


def test_dlpack_both_ways() -> None:
    array = draw(2, 3)
    close(vg.tensor(Foreign(array)), array)
    close(vg.ones(3) + Foreign(array), 1 + array)
    assert np.array_equal(np.from_dlpack(vg.tensor(array)), array)


def test_dlpack_of_a_type_that_numpy_lacks() -> None:
    class Brief(Foreign):
        def __dlpack__(self, **options: object) -> object:
            raise RuntimeError("Unsupported dtype in DLTensor.")

    brief = Brief(np.ones(2, np.float32))
    for use in (lambda: vg.tensor(brief), lambda: vg.ones((2,)) + brief):
        with pytest.raises(DTypeError, match=r"Brief.*Unsupported dtype.*convert it first"):
            use()


# ---- out
def test_reading() -> None:
    x = vg.tensor([[1.5, 2.0]])
    assert x.tolist() == [[1.5, 2.0]]
    assert (vg.tensor(2.5).item(), float(vg.tensor([2.5])), int(vg.tensor(2.5)), bool(vg.tensor(0))) == (
        2.5,
        2.5,
        2,
        False,
    )
    assert np.asarray(x).dtype == np.float32
    assert np.asarray(x, np.float64).dtype == np.float64
    assert repr(x) == "tensor([[1.5, 2. ]], dtype=float32)"
    assert repr(vg.tensor(1.0, requires_grad=True)) == "tensor(1., dtype=float32, requires_grad=True)"
    with pytest.raises(ShapeError, match=r"item\(\): a tensor of shape \(1, 2\) has 2 elements"):
        x.item()
    with pytest.raises(ShapeError):
        bool(x == x)


@pytest.mark.parametrize(
    "scalar", [2, 2.0, True, np.float64(2), np.float32(2), np.int64(2), np.int16(2), np.array(2.0)]
)
def test_scalars_are_weak_on_either_side(scalar: object) -> None:
    for dtype in (vg.float16, vg.float32):
        x = vg.ones((2,), dtype)
        for y in (x + scalar, scalar + x, x * scalar, scalar - x, vg.where(x > 0, x, scalar)):
            assert isinstance(y, vg.Tensor) and y.dtype is dtype, (y, dtype)
        with vg.counting() as counts:
            vg.eval(scalar * x + scalar)
        assert (counts.dispatches, counts.bytes_uploaded) == (1, 0)  # the scalar is a literal of the one kernel
    assert (vg.arange(2) + np.float64(0.5)).dtype is vg.float32 and (np.int64(1) + vg.arange(2)).dtype is vg.int32
    assert (vg.ones((2,)) + np.ones(1)).dtype is vg.float64  # what has an axis is not weak


def test_only_reading_computes() -> None:
    vg.flush()
    with vg.counting() as counts:
        x = vg.ones((2, 3)) * 2
        y = (x @ x.T).sum(0)
        _ = y.shape, y.dtype, y.ndim, y.size, len(y), y.T.shape, y[0].shape, y.requires_grad, hash(y), y.device
        assert counts.flushes == 0
        y.tolist()
    assert counts.flushes == 1


def test_one_read_computes_everything_pending_once() -> None:
    x = vg.tensor(draw(3))
    a, b = x + 1, x * 2
    with vg.counting() as counts:
        a.numpy()
        dispatches = counts.dispatches
        close(b, draw(3) * 2)
    assert counts.dispatches == dispatches > 0


def test_eval_keeps_values_on_the_device() -> None:
    x = {"a": vg.ones(3) + 1, "b": [vg.ones(2) * 3]}
    with vg.counting() as counts:
        vg.eval(x, vg.ones(4))
        assert (counts.flushes, counts.bytes_downloaded) == (1, 0)
    close(x["a"], np.full(3, 2, np.float32))


def test_pickle_and_copy() -> None:
    x = vg.tensor([1.0, 2.0], requires_grad=True)
    for twin in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        close(twin, np.array([1, 2], np.float32))
        assert twin.requires_grad and twin is not x


def test_tensors_are_keys_by_identity() -> None:
    x, y = vg.ones(2), vg.ones(2)
    assert {x: 1, y: 2}[x] == 1
    assert len({x, y}) == 2


def test_many_pending_tensors_at_once() -> None:
    """They are found again without comparing elements, and in the order in which they were made."""
    tensors = [vg.tensor(float(k)) * 2 for k in range(300)]
    assert [t.item() for t in tensors] == [2.0 * k for k in range(300)]


# ---- assign
def test_assign_changes_the_handle_and_not_what_was_computed_from_it() -> None:
    x = vg.tensor([1.0, 2.0])
    y = x * 10
    x.assign(x + 1)
    z = x * 10
    close(y, np.array([10, 20], np.float32))
    close(z, np.array([20, 30], np.float32))
    x.assign(7)
    close(x, np.array([7, 7], np.float32))
    x.assign(np.array([1, 2], np.float32))
    close(x, np.array([1, 2], np.float32))
    with pytest.raises(ShapeError, match=r"assign: a tensor of shape \(2,\)"):
        x.assign(vg.ones(3))
    with pytest.raises(DTypeError, match="assign: a float32 tensor cannot hold int32"):
        x.assign(vg.ones(2, vg.int32))


# ---- backward
def test_backward_accumulates() -> None:
    w = vg.tensor([1.0, 2.0], requires_grad=True)
    (w * w).sum().backward()
    close(w.grad, np.array([2, 4], np.float32))
    (3 * w).sum().backward()
    close(w.grad, np.array([5, 7], np.float32))
    w.grad = None
    (w * vg.tensor([1.0, 10.0])).backward(np.array([1, 2], np.float32))
    close(w.grad, np.array([1, 20], np.float32))


def test_backward_after_reading_the_loss() -> None:
    w = vg.tensor([1.0, 2.0], requires_grad=True)
    hidden = vg.tanh(w * 2)
    loss = (hidden * hidden).sum()
    assert loss.item() > 0
    vg.flush()
    loss.backward()
    t = np.tanh(np.array([2.0, 4.0]))
    close(w.grad, (4 * t * (1 - t * t)).astype(np.float32))


def test_backward_to_a_parameter_that_was_never_computed() -> None:
    """Equal expressions are one node: the parameter's own must not be confused with the same expression elsewhere."""
    u = vg.tensor([1.0, 2.0])
    w = u * 2
    w.requires_grad = True
    loss = (w * (u * 2)).sum()
    loss.backward()
    close(w.grad, np.array([2, 4], np.float32))


def test_backward_between_flushes() -> None:
    """A parameter's node changes when it is computed; graphs from before and after name the same parameter."""
    w = vg.tensor([1.0, 2.0]) + 0
    w.requires_grad = True
    before = (w * w).sum()
    vg.flush()
    after = (w * 3).sum()
    (before + after).backward()
    close(w.grad, np.array([5, 7], np.float32))


def test_backward_frees_the_graph_unless_asked_not_to() -> None:
    w = vg.tensor([2.0], requires_grad=True)
    loss = (w * w).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    close(w.grad, np.array([8], np.float32))
    loss.item()
    with pytest.raises(DifferentiationError, match="retain_graph"):
        loss.backward()


def test_history_is_kept_only_where_a_gradient_may_come() -> None:
    w, x = vg.tensor([2.0], requires_grad=True), vg.tensor([2.0])
    assert (w * x).keeps_history and ((w * x) + 1).keeps_history
    assert not (x * x).keeps_history
    assert not (w > 0).keeps_history
    assert not (w * x).detach().keeps_history
    with vg.no_grad():
        assert not (w * x).keeps_history
    settled = x * x * x
    vg.flush()
    assert len(walk([settled.node])) == 1
    kept = w * x * x
    vg.flush()
    assert len(walk([kept.node])) > 1


def test_no_gradient_where_none_was_asked() -> None:
    w = vg.tensor([2.0], requires_grad=True)
    with pytest.raises(DifferentiationError, match="not computed from any"):
        (vg.ones(1) * 2).sum().backward()
    with pytest.raises(DifferentiationError, match="not computed from any"):
        w.detach().sum().backward()
    with pytest.raises(DifferentiationError, match="starts from one number"):
        (w * vg.ones(3)).backward()
    with pytest.raises(ShapeError, match="backward: gradient has shape"):
        (w * vg.ones(3)).backward(np.ones(2, np.float32))
    with pytest.raises(DifferentiationError, match="only floats have gradients"):
        vg.tensor([1], requires_grad=True)
    with pytest.raises(DifferentiationError, match="detach"):
        (w * 2).requires_grad = True


def test_training_by_hand() -> None:
    x, target = draw(16, 3), draw(16, 3) @ np.array([1.0, -2.0, 0.5], np.float32)
    w = vg.tensor(np.zeros(3, np.float32), requires_grad=True)
    for _ in range(150):
        loss = ((x @ w - target) ** 2).mean()
        loss.backward()
        with vg.no_grad():
            assert w.grad is not None
            w.assign(w - 0.2 * w.grad)
        w.grad = None
    np.testing.assert_allclose(w.numpy(), [1.0, -2.0, 0.5], atol=1e-3)
    assert len(walk([w.node])) == 1, "a parameter must not drag the graphs of earlier steps along"


def test_a_graph_deeper_than_the_stack() -> None:
    w = vg.tensor(1.0, requires_grad=True)
    x = w
    for _ in range(3000):
        x = x + w
    x.backward()
    assert w.grad is not None and w.grad.item() == 3001


def test_numpys_reductions_ask_the_tensor() -> None:
    x = vg.tensor([[1.0, 2.0], [3.0, 5.0]])
    for name in ("sum", "mean", "max", "min", "prod", "any", "all"):
        found = getattr(np, name)(x, axis=0)
        assert isinstance(found, vg.Tensor) and np.allclose(found.numpy(), getattr(np, name)(x.numpy(), axis=0))
    with pytest.raises(TypeError, match="no argument 'out'"):
        np.sum(x, out=np.zeros(()))
