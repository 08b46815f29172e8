"""`detect_anomaly`: who is the first that is not finite, with a loop of one's own, with `fit`, and under `jit`."""

from __future__ import annotations

import numpy as np
import pytest

import vkgrad as vg
from vkgrad import history
from vkgrad.errors import NonFiniteError
from vkgrad.nn.module import on_call


def loader(scale: float = 1.0) -> vg.data.DataLoader:
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)
    return vg.data.DataLoader(x * np.float32(scale), x[:, :1], batch_size=4)


def net() -> vg.nn.Sequential:
    vg.manual_seed(0)
    return vg.nn.Sequential(vg.nn.Linear(4, 3), vg.nn.ReLU(), vg.nn.Linear(3, 1))


def test_fit_stops_and_says_where_to_look() -> None:
    model = net()
    with pytest.raises(
        NonFiniteError, match=r"fit: the loss of epoch \d is (nan|inf), at lr=1e\+30; lower the learning"
    ):
        vg.fit(model, vg.optim.SGD(model, lr=1e30), vg.nn.mse_loss, loader(), epochs=5)


def test_fit_writes_no_checkpoint_of_a_loss_that_is_no_number(tmp_path) -> None:
    model = net()
    with pytest.raises(NonFiniteError):
        vg.fit(
            model,
            vg.optim.SGD(model, lr=1e30),
            vg.nn.mse_loss,
            loader(),
            epochs=5,
            checkpoint=tmp_path / "run.safetensors",
        )
    assert not (tmp_path / "run.safetensors").exists()


@pytest.mark.parametrize("jit", [True, False])
def test_fit_inside_names_the_layer(jit: bool) -> None:
    model = net()
    with vg.detect_anomaly(), pytest.raises(NonFiniteError, match=r"Sequential\.\d \(Linear\)|gradient of \d\.weight"):
        vg.fit(model, vg.optim.SGD(model, lr=1e30), vg.nn.mse_loss, loader(), epochs=5, jit=jit)


def test_data_that_is_no_number_is_told_from_a_layer_that_makes_some() -> None:
    model = net()
    with vg.detect_anomaly(), pytest.raises(NonFiniteError, match=r"Sequential\.0 \(Linear\).*input has nan already"):
        model(vg.tensor([[1.0, float("nan"), 0.0, 0.0]]))
    model[0].weight.assign(vg.full((3, 4), float("inf")))
    with vg.detect_anomaly(), pytest.raises(NonFiniteError, match="its weight has inf already, so lower the learning"):
        model(vg.ones((1, 4)))


def test_gradients_of_backward_are_looked_at() -> None:
    w = vg.tensor([0.0, 4.0], requires_grad=True)
    with (
        vg.detect_anomaly(),
        pytest.raises(NonFiniteError, match=r"backward: 1 of 2 elements of the gradient of .*inf"),
    ):
        vg.sqrt(w).sum().backward()


def test_what_is_finite_passes_and_nothing_stays_behind() -> None:
    model = net()

    @vg.detect_anomaly()
    def step(x: vg.Tensor) -> dict[str, vg.Tensor]:
        return vg.grad(lambda m: m(x).sum())(model)

    gradients = step(vg.ones((2, 4)))
    assert gradients.keys() == dict(model.named_parameters()).keys()
    assert not on_call and not history.on_gradients
    double = vg.jit(lambda x: x * 2)
    with vg.detect_anomaly(), vg.detect_anomaly():
        assert double(vg.ones((2,))).tolist() == [2.0, 2.0] and not double.steps  # it was called, not recorded
        assert len(on_call) == 2
    assert double(vg.ones((2,))).tolist() == [2.0, 2.0] and double.steps
    assert not on_call and not history.on_gradients


def test_what_has_no_value_and_what_is_no_float_is_left_alone() -> None:
    class Choice(vg.nn.Module):
        def forward(self, x: vg.Tensor) -> tuple[vg.Tensor, vg.Tensor, None]:
            return x.argmax(1), x[:0], None

    model = net()
    with vg.detect_anomaly():  # inside vmap there are no values
        assert vg.vmap(model)(vg.ones((2, 4))).shape == (2, 1)
    with vg.detect_anomaly():
        found, nothing, _ = Choice()(vg.tensor([[1.0, 2.0]]))
    assert found.tolist() == [1] and nothing.shape == (0, 2)
