"""Losses against PyTorch's, and the mistakes that they must refuse."""

from __future__ import annotations

import numpy as np
import pytest

import vkgrad as vg
from tests.golden import cases
from tests.golden.compare import assert_close, golden
from vkgrad.errors import DTypeError, OptionError, ShapeError

F = vg.nn.functional
GOLDEN = golden("losses")


@pytest.mark.parametrize("name", cases.LOSSES)
def test_values_and_gradients_are_those_of_pytorch(name: str) -> None:
    function, x, target, arguments = cases.LOSSES[name]
    value, gradient = vg.value_and_grad(lambda x: _total(getattr(F, function)(x, target, **arguments)))(vg.tensor(x))
    assert_close(value.item(), GOLDEN[name].sum(), "loss", name)
    assert_close(gradient, GOLDEN[f"{name}/gradient"], "loss", f"{name} gradient")
    assert_close(getattr(F, function)(x, target, **arguments), GOLDEN[name], "loss", name)


@pytest.mark.parametrize("name", cases.LOSSES_OF_MANY)
def test_those_of_several_inputs_are_those_of_pytorch(name: str) -> None:
    function, differentiated, others, arguments = cases.LOSSES_OF_MANY[name]
    loss = getattr(F, function)
    if function == "ctc_loss":
        loss = lambda x, *others, **options: F.ctc_loss(F.log_softmax(x), *others, **options)  # noqa: E731
    numbers = tuple(range(len(differentiated)))
    tensors = [vg.tensor(x) for x in differentiated]
    gradients = vg.grad(lambda *xs: loss(*xs, *others, **arguments).sum(), argnums=numbers)(*tensors)
    assert_close(loss(*tensors, *others, **arguments), GOLDEN[name], "loss", name)
    for number, gradient in enumerate(gradients):
        assert_close(gradient, GOLDEN[f"{name}/gradient {number}"], "loss", f"{name} gradient {number}")


def _total(loss: vg.Tensor) -> vg.Tensor:
    return loss.sum()


@pytest.mark.parametrize("name", [name for name, case in cases.LOSSES.items() if case[2].dtype == np.int32])
def test_labels_on_the_device_give_the_same_loss(name: str) -> None:
    function, x, target, arguments = cases.LOSSES[name]
    loss = getattr(F, function)
    assert_close(loss(vg.tensor(x), vg.tensor(target), **arguments), loss(x, target, **arguments), "loss", name)


def test_label_types() -> None:
    x = np.eye(3, dtype=np.float32)
    expected = float(F.cross_entropy(x, [2, 0, 1]))
    for labels in (
        np.array([2, 0, 1], np.int64),
        np.array([2, 0, 1], np.uint8),
        vg.tensor(np.array([2, 0, 1], np.uint32)),
    ):
        assert float(F.cross_entropy(x, labels)) == expected


def test_large_logits_do_not_overflow() -> None:
    loss, gradient = vg.value_and_grad(lambda x: F.cross_entropy(x, [1]))(vg.tensor([[1000.0, -1000.0]]))
    assert float(loss) == 2000.0
    assert gradient.tolist() == [[1.0, -1.0]]


@pytest.mark.parametrize("labels", [[0, 3], [0, -1], np.array([5, 1])])
def test_a_label_out_of_range_is_refused_on_the_host(labels: object) -> None:
    with pytest.raises(ShapeError, match=r"label (3|-1|5) at \[[01]\] is outside 0 to 2"):
        F.cross_entropy(np.zeros((2, 3), np.float32), labels)


def test_a_label_out_of_range_on_the_device_is_nan() -> None:
    x = vg.zeros((2, 3))
    labels = [vg.tensor(each) for each in ([0, 3], [-1, 0], [0, 7])]
    for each in labels:  # what the host still has is looked at
        with pytest.raises(ShapeError, match=r"cross_entropy: label .* is outside 0 to 2"):
            F.cross_entropy(x, each)
    vg.eval(labels)
    for each in labels:
        assert np.isnan(float(F.cross_entropy(x, each)))
    rows = F.cross_entropy(x, labels[2], reduction="none").numpy()
    assert np.isfinite(rows[0]) and np.isnan(rows[1])


def test_ignored_rows_count_nothing() -> None:
    x = cases.LOSSES["cross_entropy"][1]
    all_rows = F.cross_entropy(x, [2, -9, 3, -9, 1], ignore_index=-9)
    assert_close(all_rows, F.cross_entropy(x[[0, 2, 4]], [2, 3, 1]), "loss")
    gradient = vg.grad(lambda x: F.cross_entropy(x, [2, -9, 3, -9, 1], ignore_index=-9))(vg.tensor(x)).numpy()
    assert not gradient[[1, 3]].any() and gradient[[0, 2, 4]].all()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: F.mse_loss(np.zeros((4, 1), np.float32), np.zeros(4, np.float32)), ShapeError, "must have one shape"),
        (lambda: F.cross_entropy(np.zeros((4, 3), np.float32), [0, 1]), ShapeError, r"needs labels \(4,\)"),
        (
            lambda: F.cross_entropy(np.zeros((4, 3), np.float32), np.zeros(4, np.float32)),
            DTypeError,
            "must be integers",
        ),
        (lambda: F.cross_entropy(vg.zeros((4, 3)), vg.zeros((4,))), DTypeError, "must be integers"),
        (lambda: F.cross_entropy(np.zeros((4, 3), np.int32), [0] * 4), DTypeError, "float type"),
        (lambda: F.cross_entropy(vg.zeros((4, 3)), [0] * 4, weight=[1.0, 2.0]), ShapeError, "each of 3 classes"),
        (lambda: F.cross_entropy(vg.zeros((4, 3)), [0] * 4, reduction="average"), OptionError, "reduction must be"),
        (lambda: F.cross_entropy(vg.zeros((4, 3)), [0] * 4, label_smoothing=1.5), OptionError, "label_smoothing"),
        (lambda: F.huber_loss(vg.zeros((4,)), vg.zeros((4,)), delta=0), OptionError, "delta must be positive"),
        (lambda: F.cross_entropy(vg.tensor(1.0), 0), ShapeError, "axis of classes"),
    ],
)
def test_mistakes_are_refused(call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
