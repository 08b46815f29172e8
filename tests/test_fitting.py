"""The training loop, what it reads, and what listens to it; the metrics against their definitions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.golden.patterns import chirp
from vkgrad import epochs, metrics, nn, optim
from vkgrad.data import DataLoader
from vkgrad.epochs import History
from vkgrad.errors import DataError, OptionError, ShapeError

pytestmark = pytest.mark.usefixtures("on_cpu")
X = chirp((60, 4), 1.0, 0.3)
Y = (X[:, 0] > X[:, 1]).astype(np.int32)


def parts(**options: Any) -> dict[str, Any]:
    vg.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 2))
    return {
        "model": model, "optimizer": optim.Adam(model, lr=0.02), "loss": nn.cross_entropy,
        "loader": DataLoader(X, Y, batch_size=16, seed=3), **options,
    }  # fmt: skip


def test_it_is_the_loop_that_one_would_write() -> None:
    found = vg.fit(**parts(epochs=3), validation=DataLoader(X, Y, batch_size=25, shuffle=False))
    own = parts()
    model, optimizer, expected = own["model"], own["optimizer"], []
    for _ in range(3):
        total = 0.0
        for x, y in own["loader"]:
            loss, gradients = vg.value_and_grad(lambda m, x=x, y=y: nn.cross_entropy(m(x), y))(model)
            optimizer.update(model, gradients)
            total += float(loss) * len(x)
        expected.append(total / len(X))
    assert found.column("loss") == pytest.approx(expected, rel=1e-5)
    assert found.column("epoch") == [1, 2, 3]
    whole = float(nn.cross_entropy(model.eval()(vg.tensor(X)), vg.tensor(Y)))
    assert found[-1]["validation_loss"] == pytest.approx(whole, rel=1e-5)


def test_jit_changes_nothing() -> None:
    losses = [vg.fit(**parts(epochs=2), jit=jit).column("loss") for jit in (True, False)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_metrics_and_a_schedule() -> None:
    own = parts(epochs=8)
    schedule = optim.ExponentialLR(own["optimizer"], gamma=0.9)
    history = vg.fit(**own, metrics={"accuracy": metrics.accuracy}, schedule=schedule)
    assert history[-1]["accuracy"] > 0.9 > history[0]["accuracy"]
    assert history.column("lr") == pytest.approx([0.02 * 0.9**n for n in range(8)])


def test_it_reads_once_an_epoch_without_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    compute = metrics.Mean.compute
    monkeypatch.setattr(metrics.Mean, "compute", lambda self: reads.append(1) or compute(self))
    vg.fit(**parts(epochs=2))
    assert len(reads) == 2
    monkeypatch.setattr(epochs, "LOGGED_EVERY_S", 1e9)
    vg.fit(**parts(epochs=2), progress=True)
    assert len(reads) == 4  # a bar that is not drawn reads nothing
    monkeypatch.setattr(epochs, "LOGGED_EVERY_S", 0.0)
    vg.fit(**parts(epochs=1), progress=True)
    assert len(reads) == 4 + 4 + 1


def test_a_bar_shows_the_loss(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "LOGGED_EVERY_S", 0.0)
    vg.fit(**parts(epochs=1), progress=True)
    written = capsys.readouterr().err
    assert "epoch 1/1" in written and "the first step is recorded and compiled" in written
    vg.fit(**parts(epochs=3), progress=True, validation=DataLoader(X, Y, batch_size=60), metrics=metrics.accuracy)
    written = capsys.readouterr().err
    for number in (1, 2, 3):
        line = next(line for line in re.split(r"[\r\n]+", written) if f"epoch {number}/3: loss" in line)
        assert all(f"{name} 0." in line for name in ("loss", "validation_loss", "accuracy"))
    assert "100%" in written and "accuracy=0." in written
    vg.fit(**parts(epochs=1))
    assert not capsys.readouterr().err  # nobody watches a file


def test_where_somebody_watches_there_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epochs, "_is_watched", lambda: True)
    vg.fit(**parts(epochs=30))
    written = capsys.readouterr().err
    assert written.count("\n") == 1 and "epoch 30/30: 100%" in written
    vg.fit(**parts(epochs=1), progress=False)
    assert not capsys.readouterr().err


@pytest.mark.parametrize("jit", [True, False])
def test_it_goes_on_from_its_checkpoint(tmp_path: Path, jit: bool) -> None:
    expected = vg.fit(**parts(epochs=4), jit=jit)
    path = tmp_path / "run.safetensors"
    run = {"checkpoint": path, "resume": True, "jit": jit}
    assert vg.fit(**parts(epochs=2), **run).column("loss") == expected.column("loss")[:2]  # there is no file yet
    own = parts(epochs=4)
    found = vg.fit(**own, **run)
    assert found.column("loss") == expected.column("loss") and found.column("epoch") == [1, 2, 3, 4]
    weights = own["model"][0].weight.tolist()
    finished = parts(epochs=4)
    assert vg.fit(**finished, **run) == found  # nothing is left to do, and the model is the trained one
    assert finished["model"][0].weight.tolist() == weights


def test_a_run_that_was_stopped_early_stays_stopped(tmp_path: Path) -> None:
    def run(epochs: int, **more: Any) -> tuple[History, list[Any]]:
        own = parts(epochs=epochs)
        stopping = vg.EarlyStopping("loss", patience=2, min_delta=0.05)
        return vg.fit(**own, listeners=[stopping], **more), own["model"][0].weight.tolist()

    whole, weights = run(30)
    assert 3 < len(whole) < 30
    resumed = {"checkpoint": tmp_path / "run.safetensors", "resume": True}
    run(len(whole) - 1, **resumed)  # it waits already
    for _ in range(2):
        found, same = run(30, **resumed)
        assert found.column("loss") == whole.column("loss") and same == weights


@pytest.mark.parametrize("jit", [True, False])
def test_a_checkpoint_is_loaded_by_hand_too(tmp_path: Path, jit: bool) -> None:
    expected = vg.fit(**parts(epochs=4), jit=jit).column("loss")
    path = tmp_path / "run.safetensors"
    vg.fit(**parts(epochs=2), checkpoint=path, jit=jit)
    own = parts(epochs=2)
    vg.load_checkpoint(path, **{name: own[name] for name in ("model", "optimizer", "loader")})
    assert vg.fit(**own, jit=jit).column("loss") == expected[2:]


def test_called_again_it_trains_on() -> None:
    expected = vg.fit(**parts(epochs=4)).column("loss")
    own = parts(epochs=2)
    assert [loss for _ in range(2) for loss in vg.fit(**own).column("loss")] == expected


def test_a_look_at_a_batch_takes_no_epoch_away() -> None:
    own = parts(epochs=2)
    for x, _ in own["loader"]:
        assert x.shape == (16, 4)
        break
    assert vg.fit(**own).column("epoch") == [1, 2]


def test_any_batches_will_do() -> None:
    own = parts(epochs=2)
    batches = [tuple(part.numpy() for part in batch) for batch in own["loader"]]
    own["loader"] = batches
    found = vg.fit(**own, validation=batches, checkpoint=None, metrics=metrics.accuracy)
    assert found.column("accuracy")[1] > 0.5 and found.column("loss")[1] < found.column("loss")[0]


class Taken:
    """A model of two inputs."""

    def __call__(self, out: vg.Tensor, y: vg.Tensor) -> vg.Tensor:
        return vg.mean(out * 0 + 2.0)


@pytest.mark.parametrize("given", [metrics.accuracy, [metrics.accuracy], {"accuracy": metrics.accuracy}, [Taken()]])
def test_metrics_by_name_or_under_their_own(given: Any) -> None:
    record = vg.fit(**parts(epochs=1), metrics=given)[0]
    assert 0 < record.get("accuracy", 0.5) < 1 and record.get("Taken", 2.0) == 2.0
    assert len(record) == 5


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"loader": (X, Y)}, r"loader gives pairs \(x, y\) .* got a tuple of arrays"),
        ({"loader": X}, "got a ndarray"),
        ({"validation": (X, Y)}, "validation gives pairs .* got a tuple of arrays"),
        ({"loader": None}, "got a NoneType"),
        ({"loader": []}, "nothing to do: 0 batches"),
        ({"loader": iter([(X, Y)]), "epochs": 2}, "no batches the second time"),
        ({"epochs": 0}, "nothing to do: .* 0 epochs"),
        ({"metrics": ["accuracy"]}, "a metric is a function of output and y"),
        ({"resume": True}, "name one"),
    ],
)
def test_what_is_no_batch_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        vg.fit(**{**parts(epochs=1), **wrong})


@pytest.mark.parametrize(("theirs", "ours"), [("validation_data", "validation"), ("callbacks", "listeners")])
def test_keywords_of_other_libraries_are_answered(theirs: str, ours: str) -> None:
    with pytest.raises(TypeError, match=f"fit: there is no argument '{theirs}'; did you mean '{ours}'"):
        vg.fit(**parts(epochs=1), **{theirs: None})


def test_batches_of_other_parts_are_refused() -> None:
    for batches, words in (([(X, Y, Y)], "got 3 parts"), ([{"x": X}], "got a dict")):
        with pytest.raises(DataError, match=words):
            vg.fit(**{**parts(epochs=1), "loader": batches})


def test_a_checkpoint_of_others_is_no_run_of_fit(tmp_path: Path) -> None:
    own = parts(epochs=1)
    vg.save_checkpoint(tmp_path / "a", **{name: own[name] for name in ("model", "optimizer", "loader")})
    with pytest.raises(DataError, match="not written by fit"):
        vg.fit(**own, checkpoint=tmp_path / "a", resume=True)


def test_a_history_prints_as_a_table() -> None:
    history = History([{"epoch": 1, "loss": 0.51234567}, {"epoch": 2, "loss": 12.0, "accuracy": 1.0}])
    assert repr(history).splitlines() == [
        "epoch    loss  accuracy",
        "    1  0.5123          ",
        "    2      12         1",
    ]
    assert repr(history[1:]).splitlines()[1] == "    2    12         1" and history[1]["epoch"] == 2
    assert "0.5123" in history._repr_html_() and repr(History()) == "History of no epochs"


def test_early_stopping_stops_and_gives_the_best_back() -> None:
    stopping = vg.EarlyStopping("loss", patience=2, min_delta=0.1)
    model = nn.Linear(1, 1)
    states, stops = [], []
    for value in (3.0, 2.0, 1.95, float("nan"), 0.1):
        model.weight.assign(vg.tensor([[value]]))
        states.append(value)
        stops.append(stopping({"loss": value}, model))
        if stops[-1]:
            break
    assert stops == [False, False, False, True] and model.weight.item() == 2.0
    climbing = vg.EarlyStopping("accuracy", patience=1, mode="max", restore=False)
    assert [climbing({"accuracy": a}, model) for a in (0.5, 0.6, 0.6)] == [False, False, True]
    with pytest.raises(OptionError, match="no 'validation_loss' in the records, which have loss"):
        vg.EarlyStopping()({"loss": 1.0}, model)
    with pytest.raises(OptionError, match="patience >= 1"):
        vg.EarlyStopping(patience=0)


def test_listeners_stop_the_loop() -> None:
    seen = []
    history = vg.fit(**parts(epochs=9), listeners=[lambda record, model: seen.append(record) or len(seen) == 2])
    assert len(history) == 2 and history == seen


def test_tensorboard_files(tmp_path: Path) -> None:
    board = vg.TensorBoard(tmp_path / "runs")
    vg.fit(**parts(epochs=2), listeners=[board])
    board.close()
    (file,) = (tmp_path / "runs").iterdir()
    content = file.read_bytes()
    assert b"loss" in content and b"lr" in content and b"seconds" in content


def test_curves_are_drawn(tmp_path: Path) -> None:
    history = vg.fit(**parts(epochs=2))
    history.plot(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert history.plot(names=["loss"])._repr_png_().startswith(b"\x89PNG")


# ---- metrics
SCORES = np.array([[3, 1, 2, 0], [0, 0, 0, 0], [1, 2, 3, 4], [np.nan, 1, 0, 0]], np.float32)
LABELS = np.array([2, 1, 3, 0], np.int32)


@pytest.mark.parametrize(("k", "expected"), [(1, 0.25), (2, 0.75), (4, 0.75)])
def test_accuracy(k: int, expected: float) -> None:
    assert float(metrics.accuracy(SCORES, LABELS, k)) == expected
    of_batches = metrics.Accuracy(k)
    of_batches.update(SCORES[:1], LABELS[:1])
    of_batches.update(SCORES[1:], LABELS[1:])
    assert of_batches.compute() == expected
    of_batches.reset()
    assert np.isnan(of_batches.compute())


def test_accuracy_counts_what_argmax_says() -> None:
    scores, labels = chirp((50, 7), 1.0, 0.3), (np.arange(50) % 7).astype(np.int32)
    expected = np.mean(scores.argmax(1) == labels)
    assert float(metrics.accuracy(scores, labels)) == pytest.approx(expected)
    order = np.argsort(-scores, 1, kind="stable")[:, :3]
    assert float(metrics.accuracy(scores, labels, 3)) == pytest.approx(np.mean((order == labels[:, None]).any(1)))


def test_confusion_matrix() -> None:
    expected = np.zeros((3, 3), int)
    guesses, labels = (np.arange(40) ** 2 % 3).astype(np.int32), (np.arange(40) % 3).astype(np.int32)
    np.add.at(expected, (labels, guesses), 1)
    assert np.array_equal(metrics.confusion_matrix(guesses, labels, 3), expected)
    counts = metrics.ConfusionMatrix(3)
    for part in (slice(0, 13), slice(13, 40)):
        counts.update(np.eye(3, dtype=np.float32)[guesses[part]], labels[part])
    assert np.array_equal(counts.compute(), expected) and counts.compute().dtype.kind == "i"
    counts.reset()
    assert not counts.compute().any()


def test_metrics_refuse_what_does_not_fit() -> None:
    with pytest.raises(ShapeError, match=r"takes scores \(B, C\)"):
        metrics.accuracy(SCORES[0], LABELS)
    with pytest.raises(OptionError, match="k must be from 1 to 4"):
        metrics.accuracy(SCORES, LABELS, 5)
    with pytest.raises(ShapeError, match=r"takes \(B,\) and \(B,\)"):
        metrics.confusion_matrix(LABELS, LABELS[:2], 4)


def test_a_mean_inside_a_recorded_step() -> None:
    mean = metrics.Mean()
    step = vg.jit(lambda x: mean.update(x.sum(), 2) or x * 2)
    for value in (1.0, 2.0, 6.0):
        step(vg.tensor([value]))
    assert mean.compute() == pytest.approx(3.0)
