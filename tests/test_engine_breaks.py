"""Attempts to break a flush: what is too large, too deep or interrupted must give one clear error, and lose nothing."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import vkgrad as vg
from vkgrad import engine
from vkgrad.config import config
from vkgrad.errors import OutOfDeviceMemoryError, VkgradError


def fine() -> None:
    """The engine still works."""
    assert (vg.tensor([1.0, 2.0]) + 1).tolist() == [2, 3]


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What a process of its own prints; it must end by itself."""
    root = Path(__file__).resolve().parents[1]
    path = os.pathsep.join([str(root), *filter(None, sys.path)])
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": path, **environment}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


# ---- sizes
def test_a_tensor_too_large_is_told_to_whoever_reads_it_and_to_nobody_else() -> None:
    w = vg.tensor([1.0, 2.0])
    large, y = vg.zeros((1 << 20, 1 << 14)), w * 3
    assert y.tolist() == [3, 6]
    for _ in range(2):
        with pytest.raises(OutOfDeviceMemoryError, match=r"float32\[1048576, 16384\] takes 68,719,476,736 bytes"):
            large.numpy()
        fine()
    z = w * 5
    other = vg.zeros((1 << 20, 1 << 14))
    with pytest.raises(OutOfDeviceMemoryError):
        vg.flush()
    vg.flush()  # said once
    assert z.tolist() == [5, 10] and other.shape == large.shape


def test_a_recorded_step_keeps_what_a_failed_flush_left_behind() -> None:
    """After a failed flush a tensor waits, unevaluated, while a step updates what it was computed from."""
    with config.override(device="cpu"):
        w = vg.tensor([1.0, 2.0])
        step = vg.jit(lambda x: w.assign(w + x))
        step(np.ones(2, "f4"))
        waiting = w * 10
        engine.pending.clear()  # as a failed flush does
        step(np.ones(2, "f4"))
        assert waiting.tolist() == [20, 30] and w.tolist() == [3, 4]


def test_a_buffer_larger_than_a_kernel_may_see() -> None:
    largest = getattr(engine.device(), "largest_binding", 0)
    if largest > 1 << 28:
        pytest.skip(f"this device lets a kernel see {largest} bytes, more than a test should take")
    x = vg.zeros((largest // 4 + 1,)) + 1
    with pytest.raises(OutOfDeviceMemoryError, match="compute it in parts"):
        vg.eval(x)
    assert float((x * 0.5).max()) == 0.5  # which never makes x


def test_more_operands_than_a_kernel_binds() -> None:
    inputs = [vg.tensor(np.full(3, i, "f4")) for i in range(100)]
    total = inputs[0]
    for x in inputs[1:]:
        total = total + x
    assert total.tolist() == [4950] * 3
    assert vg.stack(inputs, 1).sum(1).tolist() == [4950] * 3
    gradients = vg.grad(lambda ps: sum((p * p).sum() for p in ps))(inputs)
    assert [g.tolist() for g in gradients] == [[2 * i] * 3 for i in range(100)]


def test_deep_graphs_are_computed_differentiated_and_freed() -> None:
    x = vg.tensor([1.0, 2.0])

    def deep(x: vg.Tensor, depth: int) -> vg.Tensor:
        for _ in range(depth):
            x = x + 1.0
        return x

    assert deep(x, 5000).tolist() == [5001, 5002]
    assert vg.grad(lambda x: deep(x, 2000).sum())(x).tolist() == [1, 1]
    never_read = deep(x, 15_000)
    del never_read
    gc.collect()


def test_long_axes_and_many_groups() -> None:
    n = 65535 * 256 + 1
    numbers = vg.arange(n, dtype=vg.int32) * 2 + 1
    np.testing.assert_array_equal(numbers.numpy(), np.arange(n, dtype="i4") * 2 + 1)
    rows = vg.arange(210_000, dtype=vg.float32).reshape(70_000, 3)
    np.testing.assert_array_equal(rows.sum(1).numpy(), np.arange(210_000, dtype="f4").reshape(-1, 3).sum(1))
    assert (vg.ones((66_000, 1, 2)) @ vg.ones((66_000, 2, 1))).sum().item() == 132_000

    a = np.random.default_rng(0).normal(size=(2, 70_000)).astype("f4")
    exact = a.astype("f8") @ a.T.astype("f8")
    np.testing.assert_allclose((vg.tensor(a) @ vg.tensor(a).T).numpy(), exact, rtol=1e-5, atol=0.05)
    x = vg.tensor(a[0])
    assert x.max().item() == a[0].max() and x.argmax().item() == a[0].argmax()
    np.testing.assert_allclose(x.std().item(), a[0].astype("f8").std(), rtol=1e-5)
    np.testing.assert_allclose(vg.logsumexp(x).item(), np.log(np.exp(a[0].astype("f8")).sum()), rtol=1e-6)


def test_infinities_in_double_precision() -> None:
    x = np.array([[1.0, -np.inf, 3.0]])
    assert vg.tensor(x).max().item() == 3 and vg.tensor(x).min().item() == -np.inf


def test_the_gradient_of_a_reshaped_softmax_of_something_repeated() -> None:
    with config.override(device="cpu"):
        x, w = vg.tensor(np.ones((4, 5), "f4")), vg.tensor(np.ones((12, 5), "f4"))
        repeated = lambda x: vg.softmax(vg.broadcast_to(x, (3, 4, 5)), 1)  # noqa: E731
        vg.eval(vg.grad(lambda x: (vg.log(repeated(x).reshape(12, 5)) * w).sum())(x))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 0.0, lambda x: x * -0.0, lambda x: 0.0 * x, lambda x: x + 0.0, lambda x: x + -0.0,
        lambda x: x - 0.0, lambda x: 0.0 - x, lambda x: 0.0 / x, lambda x: -0.0 / x, lambda x: x / 0.0,
        lambda x: x - x, lambda x: x / x,
    ],
    ids=["x*0", "x*-0", "0*x", "x+0", "x+-0", "x-0", "0-x", "0/x", "-0/x", "x/0", "x-x", "x/x"],
)  # fmt: skip
def test_arithmetic_with_a_literal_zero(function: Callable, dtype: str) -> None:
    """Mesa folds most of these as if there were no infinities, no NaN and one zero, if it sees the literal."""
    if dtype == "float64" and not device_has_doubles():
        pytest.skip("this device has no double precision")
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.5, -2.0], dtype)
    with np.errstate(all="ignore"):
        expected = function(x)
    found = function(vg.tensor(x)).numpy()
    np.testing.assert_array_equal(found, expected)
    signed = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[signed]), np.signbit(expected[signed]))


def device_has_doubles() -> bool:
    return getattr(getattr(engine.device(), "limits", None), "float64", True)


# ---- memory
class Poisoned:
    """Every arena of the device is filled with NaN before each flush, and so is everything newly allocated."""

    def __init__(self, device: object) -> None:
        self.device = device

    def fill(self, buffer: object, size: int) -> None:
        plan = self.device.native.plan(copies=1)  # type: ignore[attr-defined]
        plan.fill(buffer, 0x7FC00000, 0, size)
        plan.finish()
        native = self.device.native  # type: ignore[attr-defined]
        native.wait(native.submit(plan))  # the host may be about to write here


@pytest.fixture
def poison(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    device = engine.device()
    poisoned = Poisoned(device)
    allocate, record = type(device).allocate, type(device).record

    def allocating(self: object, size_bytes: int, *use: object, **named: object) -> object:
        buffer = allocate(self, size_bytes, *use, **named)  # type: ignore[arg-type]
        poisoned.fill(buffer, -(-size_bytes // 4) * 4)
        return buffer

    def recording(self: object, job: object) -> object:
        arena = self.arena  # type: ignore[attr-defined]
        if arena is not None:
            poisoned.fill(arena, arena.nbytes // 4 * 4)
        return record(self, job)  # type: ignore[arg-type]

    monkeypatch.setattr(type(device), "allocate", allocating)
    monkeypatch.setattr(type(device), "record", recording)
    yield


def test_nothing_reads_what_it_has_not_written(poison: None) -> None:
    from tests.models import losses

    assert losses("mlp", 4) == losses("mlp", 4, jit=True)
    assert np.isfinite(losses("mlp", 4)).all()
    assert np.isfinite(losses("lenet", 2, batch=3)).all()


def test_the_poison_is_seen(poison: None) -> None:
    value = engine.Value(engine.device(), engine.device().allocate(8), 8)
    node = vg.tensor([0.0, 0.0]).node
    engine.values[node] = value
    assert np.isnan(engine.read(node)).all()


# ---- processes
def test_an_interrupt_returns_at_once_and_leaves_a_usable_state() -> None:
    code = """
        import signal, vkgrad as vg, numpy as np
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are started deaf to it
        a = vg.tensor(np.ones((256, 256), "f4") / 256); w = vg.zeros(())
        @vg.jit
        def step(x):
            b = a
            for _ in range(10): b = b @ a
            w.assign(w + 1)
            return b.sum() + x
        float(step(vg.tensor(0.0)))
        print("go", flush=True)
        try:
            while True: step(vg.tensor(0.0))
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        n = float(w)
        value = float(step(vg.tensor(1.0)))
        print(float(w) == n + 1, abs(value - 257) < 0.01)
    """
    root = Path(__file__).resolve().parents[1]
    path = os.pathsep.join([str(root), *filter(None, sys.path)])
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "go\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    sent = time.monotonic()
    assert process.stdout.readline() == "interrupted\n" and time.monotonic() - sent < 5
    assert process.communicate(timeout=60)[0].split() == ["True", "True"] and process.returncode == 0


def test_a_forked_child_is_told_so_even_if_a_thread_held_the_lock() -> None:
    result = run("""
        import os, sys, threading, vkgrad as vg
        from vkgrad import engine
        x = vg.tensor([1.0, 2.0]); (x + 1).tolist()
        held, done = threading.Event(), threading.Event()
        def hold():
            with engine.lock:
                held.set(); done.wait(30)
        thread = threading.Thread(target=hold); thread.start(); held.wait()
        child = os.fork()
        if child == 0:
            try: (x + 2).tolist()
            except vg.errors.VkgradError as error: print(type(error).__name__, flush=True)
            sys.exit(0)
        print(os.waitpid(child, 0)[1]); done.set(); thread.join()
        print((x + 3).tolist())
    """)
    assert result.stdout.split("\n")[:3] == ["ForkedError", "0", "[4.0, 5.0]"], result
    assert not result.stderr and result.returncode == 0


@pytest.mark.parametrize(
    "ending",
    [
        "f(a)",
        "f(a); raise SystemExit(0)",
        "threading.Thread(target=lambda: [f(a).numpy() for _ in range(10**6)], daemon=True).start(); time.sleep(1)",
    ],
    ids=["returns", "raises", "daemon thread"],
)
def test_leaving_with_work_in_flight(ending: str) -> None:
    result = run(f"""
        import threading, time, numpy as np, vkgrad as vg
        a = vg.tensor(np.ones((200, 200), "f4") / 200)
        f = vg.jit(lambda x: x @ x @ a)
        for _ in range(3): f(a)
        {ending}
    """)
    assert result.returncode == 0 and not result.stderr, result


def test_debugging_prints_to_standard_error() -> None:
    result = run("import vkgrad as vg; print((vg.ones((3,)) + 1).tolist())", VKGRAD_DEBUG="plan,timing,glsl")
    assert result.stdout == "[2.0, 2.0, 2.0]\n"
    assert all(word in result.stderr for word in ("dispatches", "flush: plan", "#version 450")), result.stderr


def test_two_devices_in_one_expression() -> None:
    with config.override(device="cpu"):
        a = vg.tensor([1.0, 2.0])
        vg.eval(a)
    b = vg.tensor([1.0, 2.0])
    with pytest.raises(VkgradError, match="different devices"):
        (a + b).tolist()
    fine()
    assert (a * 2).tolist() == [2, 4] and vg.jit(lambda x: x + 1)(a).tolist() == [2, 3]


def test_what_depends_on_no_data_is_computed_anew_on_another_device() -> None:
    w = vg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    numbers = vg.arange(3.0)
    product = w * numbers  # whose graph keeps the counter
    vg.eval(numbers, product)
    with config.override(device="cpu"):
        assert (vg.arange(3.0) + vg.tensor([1.0, 1.0, 1.0])).tolist() == [1, 2, 3]
    assert (vg.arange(3.0) + vg.tensor([2.0, 2.0, 2.0])).tolist() == [2, 3, 4]
    product.sum().backward()
    assert w.grad is not None and w.grad.tolist() == [0, 1, 2] and numbers.tolist() == [0, 1, 2]
    with pytest.raises(VkgradError, match="different devices"), config.override(device="cpu"):
        (vg.tensor([1.0, 1.0, 1.0]) + w.detach()).tolist()
