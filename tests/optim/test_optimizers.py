"""Optimisers against PyTorch's trajectories, both ways of stepping, and their state."""

from __future__ import annotations

import numpy as np
import pytest

import vkgrad as vg
from tests.golden import cases
from tests.golden.compare import assert_close, golden
from vkgrad.errors import DataError, DifferentiationError, OptionError, ShapeError

GOLDEN = golden("optimisers")


def _optimiser(name: str, params: object) -> vg.optim.Optimizer:
    kind, arguments = cases.OPTIMISERS[name]
    return getattr(vg.optim, kind)(params, **arguments)


@pytest.mark.parametrize("name", cases.OPTIMISERS)
def test_twenty_steps_are_those_of_pytorch(name: str) -> None:
    p = vg.tensor(cases.start())
    optimiser = _optimiser(name, [p])
    for step in range(cases.STEP_COUNT):
        optimiser.update([p], [vg.tensor(cases.gradient(step))])
    assert_close(p, GOLDEN[name], "optimiser", name)


@pytest.mark.parametrize("name", cases.OPTIMISERS)
def test_stepping_after_backward_is_the_same_bit_for_bit(name: str) -> None:
    p, q = vg.tensor(cases.start()), vg.tensor(cases.start(), requires_grad=True)
    first, second = _optimiser(name, [p]), _optimiser(name, [q])
    for step in range(3):
        g = cases.gradient(step)
        first.update([p], vg.grad(lambda p, g=g: [(p[0] * g).sum()][0])([p]))
        (q * g).sum().backward()
        second.step()
        second.zero_grad()
    assert q.grad is None
    assert np.array_equal(p, q)


def test_double_precision_steps_in_double_precision() -> None:
    p = vg.tensor(cases.start().astype(np.float64))
    optimiser = vg.optim.Adam([p], lr=0.02)
    for step in range(cases.STEP_COUNT):
        optimiser.update([p], [vg.tensor(cases.gradient(step).astype(np.float64))])
    assert p.dtype is vg.float64
    assert np.abs(p.numpy() - GOLDEN["adam"]).max() < 1e-14


@pytest.mark.parametrize("by", ["backward", "value_and_grad"])
@pytest.mark.parametrize("name", cases.LBFGS)
def test_newtons_steps_are_those_of_pytorch(name: str, by: str) -> None:
    p = vg.tensor(cases.start(), requires_grad=True)
    optimiser = vg.optim.LBFGS({"w": p}, **cases.LBFGS[name])

    def closure() -> object:
        if by == "value_and_grad":
            return vg.value_and_grad(lambda params: cases.valley(params["w"]))({"w": p})
        optimiser.zero_grad()
        loss = cases.valley(p)
        loss.backward()
        return loss

    losses = [float(optimiser.step(closure)) for _ in range(cases.STEP_COUNT)]
    assert losses[-1] < losses[0] and losses[0] == pytest.approx(float(cases.valley(cases.start())), rel=1e-6)
    assert_close(p, GOLDEN[name], "optimiser", name)


def test_newtons_steps_find_the_bottom_of_a_valley() -> None:
    p = vg.tensor(cases.start(), requires_grad=True)
    optimiser = vg.optim.LBFGS([p], line_search_fn="strong_wolfe", max_iter=100)
    calls = []

    def closure() -> vg.Tensor:
        calls.append(1)
        optimiser.zero_grad()
        loss = cases.valley(p)
        loss.backward()
        return loss

    optimiser.step(closure)
    assert np.abs(p.numpy() - 1).max() < 1e-3 and len(calls) < 60
    for wrong, message in (
        (lambda: optimiser.step(), r"step\(closure\)"),
        (lambda: optimiser.update([p], [p]), "call step"),
        (lambda: optimiser.add_param_group({"params": [vg.ones((1,))]}), "one group only"),
        (lambda: vg.optim.LBFGS([p], line_search_fn="wolfe"), "strong_wolfe"),
    ):
        with pytest.raises(vg.errors.VkgradError, match=message):
            wrong()


@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("shape", [(3, 5), (6, 2)])
def test_muon_by_hand(shape: tuple[int, int], nesterov: bool) -> None:
    value, mean = cases.chirp(shape, 1.0, 0.1).astype(np.float64), np.zeros(shape)
    p = vg.tensor(value.astype(np.float32))
    optimiser = vg.optim.Muon([p], lr=0.1, weight_decay=0.2, momentum=0.8, nesterov=nesterov)
    for step in range(4):
        g = cases.chirp(shape, 0.5, 0.4 + 1.9 * step).astype(np.float64)
        mean = 0.8 * mean + 0.2 * g
        x = 0.2 * g + 0.8 * mean if nesterov else mean
        x = (x.T if shape[0] > shape[1] else x) / np.linalg.norm(x)
        for _ in range(5):
            gram = x @ x.T
            x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
        assert 0.5 < np.linalg.svd(x)[1].min() <= np.linalg.svd(x)[1].max() < 1.3
        x = x.T if shape[0] > shape[1] else x
        value = value * (1 - 0.1 * 0.2) - 0.1 * max(1, shape[0] / shape[1]) ** 0.5 * x
        optimiser.update([p], [vg.tensor(g.astype(np.float32))])
    assert_close(p, value, "optimiser")
    with pytest.raises(OptionError, match="takes matrices"):
        vg.optim.Muon([vg.zeros((3,))])


def test_factors_of_a_stack_of_matrices_and_of_a_vector() -> None:
    value = cases.chirp((5,), 1.0, 0.2)
    stack, vector = vg.tensor(cases.chirp((2, 3, 4), 1.0, 0.1)), vg.tensor(value)
    optimiser = vg.optim.Adafactor({"w": stack, "b": vector})
    shapes = {name: tensor.shape for name, tensor in optimiser.state_dict().items()}
    assert shapes["w.row_var"] == (2, 3, 1) and shapes["w.col_var"] == (2, 1, 4) and shapes["b.variance"] == (5,)
    optimiser.update({"w": stack, "b": vector}, {"w": vg.ones((2, 3, 4)), "b": vg.ones((5,))})
    assert np.allclose(
        vector.numpy() - cases.chirp((5,), 1.0, 0.2), -0.01 * np.linalg.norm(cases.chirp((5,), 1.0, 0.2)) / 5**0.5
    )


def test_lion_by_hand() -> None:
    p = value = cases.start()
    mean = np.zeros_like(value)
    p = vg.tensor(value)
    optimiser = vg.optim.Lion(p, lr=0.01, betas=(0.8, 0.9), weight_decay=0.1)
    for step in range(3):
        g = cases.gradient(step)
        value = value - 0.01 * (np.sign(0.8 * mean + 0.2 * g) + 0.1 * value)
        mean = 0.9 * mean + 0.1 * g
        optimiser.update(p, vg.tensor(g))
    assert_close(p, value, "optimiser")


def test_adams_correction_keeps_its_digits() -> None:
    # The first step of Adam has the size of the learning rate whatever beta2 is, if the correction is exact.
    p = vg.tensor([1.0])
    vg.optim.Adam(p, lr=0.5, betas=(0.9, 0.99999), eps=0.0).update(p, vg.tensor([3.0]))
    assert abs(float(p) - 0.5) < 2e-7


def test_a_module_takes_its_gradients_by_name() -> None:
    model = vg.nn.Sequential(vg.nn.Linear(3, 2), vg.nn.Tanh(), vg.nn.Linear(2, 1))
    optimiser = vg.optim.SGD(model, lr=0.5)
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    before = {name: p.numpy() for name, p in model.named_parameters()}
    tensors = list(model.parameters())
    gradients = vg.grad(lambda model: (model(x) ** 2).sum())(model)
    expected = {name: before[name] - 0.5 * g.numpy() for name, g in gradients.items()}
    optimiser.update(model, gradients)
    assert all(new is old for new, old in zip(model.parameters(), tensors, strict=True))
    for name, p in model.named_parameters():
        assert_close(p, expected[name], "optimiser", name)


def test_any_nesting_of_parameters() -> None:
    params = {"layers": [(vg.ones((2,)), vg.zeros((3,))), (vg.ones((1,)),)], "scale": vg.tensor(2.0)}
    optimiser = vg.optim.SGD(params, lr=1.0)
    assert list(optimiser.params) == ["layers[0][0]", "layers[0][1]", "layers[1][0]", "scale"]
    gradients = {"layers": [(vg.ones((2,)), vg.ones((3,))), (vg.ones((1,)),)], "scale": vg.tensor(3.0)}
    optimiser.update(params, gradients)
    assert params["layers"][0][1].tolist() == [-1.0, -1.0, -1.0] and float(params["scale"]) == -1.0


def test_a_shared_parameter_is_updated_once() -> None:
    w = vg.tensor([1.0])
    assert len(vg.optim.SGD([w, w], lr=1.0).params) == 1


def test_parameters_without_a_gradient_stay() -> None:
    model = vg.nn.Linear(2, 2)
    optimiser = vg.optim.SGD(model.parameters(), lr=1.0)
    bias = model.bias.numpy()
    (vg.ones((1, 2)) @ model.weight).sum().backward()
    optimiser.step()
    assert np.array_equal(model.bias, bias)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: vg.optim.SGD([], lr=1.0), OptionError, "no parameter to update"),
        (lambda: vg.optim.SGD(vg.zeros((2,)), lr=-1.0), OptionError, "must be at least 0"),
        (lambda: vg.optim.SGD(vg.zeros((2,)), nesterov=True), OptionError, "nesterov needs momentum"),
        (lambda: vg.optim.Adam(vg.zeros((2,)), betas=(0.9, 1.0)), OptionError, "betas"),
        (lambda: vg.optim.SGD([3.0]), OptionError, "changes tensors"),
        (lambda: vg.optim.SGD(vg.zeros((2,))).step(), DifferentiationError, r"call backward\(\)"),
    ],
)
def test_mistakes_are_refused(call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_gradients_that_do_not_belong_are_refused() -> None:
    w, b = vg.zeros((2,)), vg.zeros((3,))
    optimiser = vg.optim.SGD({"w": w, "b": b}, lr=1.0)
    with pytest.raises(ShapeError, match=r"w has shape \(2,\), its gradient \(3,\)"):
        optimiser.update({"w": w, "b": b}, {"w": vg.zeros((3,)), "b": vg.zeros((3,))})
    with pytest.raises(ShapeError, match="differ in b"):
        optimiser.update({"w": w, "b": b}, {"w": vg.zeros((2,))})
    with pytest.raises(ShapeError, match="none of the parameters that this SGD was made with"):
        optimiser.update({"w": vg.zeros((2,))}, {"w": vg.zeros((2,))})
    optimiser.update({"w": w}, {"w": vg.ones((2,))})  # a part of the parameters is fine
    assert w.tolist() == [-1.0, -1.0] and b.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", ["sgd dampening", "adam amsgrad", "rmsprop all", "adagrad all", "adafactor all"])
def test_a_saved_state_goes_on_where_it_stopped(name: str) -> None:
    p = vg.tensor(cases.start())
    optimiser = _optimiser(name, {"w": p})
    for step in range(3):
        optimiser.update({"w": p}, {"w": vg.tensor(cases.gradient(step))})
    optimiser.lr = 0.03
    state = {key: value.numpy() for key, value in optimiser.state_dict().items()}
    q = vg.tensor(p.numpy())
    other = _optimiser(name, {"w": q})
    other.load_state_dict(state)
    assert other.lr == pytest.approx(0.03)
    for step in range(3, 5):
        optimiser.update({"w": p}, {"w": vg.tensor(cases.gradient(step))})
        other.update({"w": q}, {"w": vg.tensor(cases.gradient(step))})
    assert np.array_equal(p, q)


def test_a_state_of_another_kind_is_refused() -> None:
    w = vg.zeros((2,))
    with pytest.raises(DataError, match=r"differ in parameter\.momentum_buffer"):
        vg.optim.SGD(w, momentum=0.9).load_state_dict(vg.optim.SGD(w).state_dict())


def test_state_tensors_are_all_that_a_step_reads() -> None:
    w = vg.tensor([1.0, 2.0])
    optimiser = vg.optim.Adam(w, lr=0.1)
    optimiser.update(w, vg.ones((2,)))
    names = ["lr", "correction1", "correction2", "parameter.exp_avg", "parameter.exp_avg_sq"]
    assert list(optimiser.state_dict()) == names
    assert optimiser.state_tensors() == [optimiser.state_dict()[name] for name in names]
    assert optimiser.state_tensors()[0].item() == pytest.approx(0.1)


def test_the_learning_rate_can_be_changed() -> None:
    w = vg.tensor([1.0])
    optimiser = vg.optim.SGD(w, lr=1.0)
    rate = optimiser.state_tensors()[0]
    optimiser.update(w, vg.ones((1,)))
    optimiser.lr = 0.25
    optimiser.update(w, vg.ones((1,)))
    assert w.tolist() == [-0.25]
    assert optimiser.lr == 0.25 and optimiser.state_tensors()[0] is rate


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", cases.GROUPS)
def test_groups_have_options_of_their_own(name: str, compiled: bool) -> None:
    rule, own = cases.GROUPS[name]
    kind, arguments = cases.OPTIMISERS[rule]
    a, b = vg.tensor(cases.start()), vg.tensor(cases.start())
    optimiser = getattr(vg.optim, kind)([{"params": [a]}, {"params": [b], **own}], **arguments)

    def update(optimiser: vg.optim.Optimizer, g: vg.Tensor) -> None:
        optimiser.update([a, b], [g, g])

    step_once = vg.jit(update) if compiled else update
    for step in range(cases.STEP_COUNT):
        step_once(optimiser, vg.tensor(cases.gradient(step)))
    assert_close([a.numpy(), b.numpy()], GOLDEN[name], "optimiser", name)
    assert optimiser.param_groups[1]["params"][0] is b and len(optimiser.param_groups[0]["params"]) == 1


def test_groups_are_mappings_and_can_be_added() -> None:
    a, b = vg.tensor([1.0]), vg.tensor([1.0])
    optimiser = vg.optim.SGD([a], lr=1.0, weight_decay=0.5)
    optimiser.add_param_group({"params": [b], "weight_decay": 0.0})
    for group in optimiser.param_groups:
        group["lr"] *= 0.5
    assert dict(optimiser.param_groups[1]) | {"params": 0} == {
        "params": 0, "lr": 0.5, "momentum": 0.0, "dampening": 0.0, "weight_decay": 0.0, "nesterov": False,
        "maximize": False,
    }  # fmt: skip
    optimiser.update([a, b], [vg.ones((1,)), vg.ones((1,))])
    assert (a.tolist(), b.tolist()) == ([0.25], [0.5])
    other = {"params": [vg.ones((1,))], "beta": 1}
    for wrong, message in (({"params": [b]}, "in a group already"), (other, "no option")):
        with pytest.raises(OptionError, match=message):
            optimiser.add_param_group(wrong)


def test_an_option_changed_between_recorded_steps_counts() -> None:
    w = vg.tensor([1.0])
    optimiser = vg.optim.SGD(w, lr=1.0)

    @vg.jit
    def step(optimiser: vg.optim.Optimizer) -> None:
        optimiser.update(w, vg.zeros((1,)))

    step(optimiser)
    optimiser.param_groups[0]["weight_decay"] = 0.5
    step(optimiser)
    step(optimiser)
    assert w.tolist() == [0.25]


def test_a_running_average_of_weights() -> None:
    model = vg.nn.Linear(2, 2)
    swa, ema = (vg.optim.swa_utils.AveragedModel(model, fn) for fn in (None, vg.optim.swa_utils.get_ema_avg_fn(0.75)))
    seen = []
    for value in (4.0, 8.0, 0.0):
        model.bias.assign(np.full(2, value, np.float32))
        seen.append(value)
        swa.update_parameters(model)
        ema.update_parameters(model)
    assert swa.module.bias.tolist() == [4.0, 4.0] and ema.module.bias.tolist() == [3.75, 3.75]
    assert list(swa.state_dict()) == ["n_averaged", "module.weight", "module.bias"] and int(swa.n_averaged) == 3
    assert model.bias.tolist() == [0.0, 0.0]


def test_averages_of_all_weights_together() -> None:
    model = vg.nn.Linear(2, 2)
    utils = vg.optim.swa_utils
    one, many = (
        utils.AveragedModel(model, utils.get_ema_avg_fn(0.9)),
        utils.AveragedModel(model, multi_avg_fn=utils.get_ema_multi_avg_fn(0.9)),
    )
    largest = utils.AveragedModel(
        model, multi_avg_fn=lambda a, b, n: [vg.maximum(x, y) for x, y in zip(a, b, strict=True)]
    )
    for value in (1.0, 3.0, 2.0):
        model.bias.assign(np.full(2, value, np.float32))
        for averaged in (one, many, largest):
            averaged.update_parameters(model)
    assert np.array_equal(one.module.bias, many.module.bias) and largest.module.bias.tolist() == [3.0, 3.0]
    with pytest.raises(OptionError, match="not both"):
        utils.AveragedModel(model, utils.get_swa_avg_fn(), utils.get_swa_multi_avg_fn())


def test_accumulated_gradients_are_those_of_the_whole_batch() -> None:
    x = cases.chirp((8, 3), 1.0, 0.2)
    gradients = []
    for parts in (1, 4):
        model = vg.nn.Linear(3, 1, bias=False)
        model.weight.assign(cases.chirp((1, 3), 1.0, 0.4))
        for part in np.split(x, parts):
            ((model(part) ** 2).mean() / parts).backward()
        gradients.append(model.weight.grad.numpy())
    assert_close(gradients[1], gradients[0], "optimiser")


def test_it_says_what_it_is() -> None:
    assert repr(vg.optim.SGD(vg.nn.Linear(3, 2), lr=0.1)) == "SGD(lr=0.1, 2 parameters with 8 elements)"
