"""Flush: one submission, right values in any order of use, nothing kept that nobody holds."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import vkgrad as vg
from tests.models import losses
from vkgrad import engine
from vkgrad.config import config
from vkgrad.errors import NoDeviceError, UnsupportedError, VkgradError


def array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.Generator(np.random.Philox(seed)).normal(size=shape).astype("f4")


def test_nothing_runs_until_a_value_is_read() -> None:
    with vg.counting() as c:
        x = vg.tensor(array(3, 4))
        y = vg.exp(x).sum()
        assert (y.shape, y.dtype, y.ndim) == ((), vg.float32, 0)
    assert (c.submissions, c.dispatches, c.bytes_uploaded) == (0, 0, 0)
    with vg.counting() as c:
        value = float(y)
    assert (c.submissions, c.flushes, c.bytes_uploaded, c.bytes_downloaded) == (1, 1, 48, 4)
    np.testing.assert_allclose(value, np.exp(array(3, 4)).sum(), rtol=1e-5)


def test_reading_runs_everything_pending_together_and_only_once() -> None:
    x = vg.tensor(array(8))
    y, z = x + 1, x * 2
    with vg.counting() as c:
        y.numpy()
        z_value = z.numpy()
        z.numpy()
    # One for the flush and one to fetch each of the two reads of z, which had not been asked for then.
    assert c.dispatches == 1 and c.submissions == 3
    np.testing.assert_array_equal(z_value, array(8) * 2)


def test_counting_nests_and_is_free_of_other_threads() -> None:
    with vg.counting() as outer:
        vg.eval(vg.tensor(array(2)) + 1)
        with vg.counting() as inner:
            vg.eval(vg.tensor(array(2)) + 2)
            other = threading.Thread(target=lambda: vg.eval(vg.tensor(array(2)) + 3))
            other.start()
            other.join()
    assert (inner.submissions, outer.submissions) == (1, 2)


def test_random_interleavings_equal_numpy() -> None:
    """Operations, reads, dropped references and assignments in any order."""
    generator = np.random.Generator(np.random.Philox(3))
    for _ in range(15):
        pool = [(vg.tensor(a), a) for a in (array(6, seed=int(generator.integers(99))) for _ in range(3))]
        for _ in range(30):
            (x, a), (y, b) = (pool[i] for i in generator.integers(len(pool), size=2))
            match generator.integers(7):
                case 0:
                    pool.append((x + y, a + b))
                case 1:
                    pool.append((x * 0.5 - y, a * np.float32(0.5) - b))
                case 2:
                    pool.append((x[::-1], a[::-1]))
                case 3:
                    np.testing.assert_array_equal(x.numpy(), a)
                case 4 if len(pool) > 2:
                    pool.pop(int(generator.integers(len(pool))))
                case 5:
                    vg.flush()
                case _:
                    x.assign(y * 2)
                    pool = [(t, b * 2 if t is x else v) for t, v in pool]
        for tensor, value in pool:
            np.testing.assert_array_equal(tensor.numpy(), value)


@pytest.mark.parametrize("cap", [0, 1, 4, 64, 256])
def test_batch_cap_changes_no_bit(cap: int) -> None:
    expected = losses("mlp", 3)
    with config.override(batch_max=cap), vg.counting() as c:
        assert losses("mlp", 3) == expected
    assert c.submissions >= (c.dispatches if cap in (0, 1) else 3)


def test_small_cap_is_repeatable() -> None:
    with config.override(batch_max=4):
        assert len({tuple(losses("mlp", 2)) for _ in range(10)}) == 1


@pytest.mark.parametrize("kind", ["mlp", "lenet"])
def test_elementwise_fusion_changes_no_bit(kind: str) -> None:
    fused = losses(kind, 50)
    with config.override(fuse=False), vg.counting() as c:
        assert losses(kind, 50) == fused
    assert c.dispatches > 50 * 25


def test_equal_expressions_are_one_node_unless_switched_off() -> None:
    x = vg.tensor(array(3))
    assert (x + 1).node is (x + 1).node
    with config.override(cse=False):
        assert (x + 1).node is not (x + 1).node


def test_values_outlive_the_graph_and_memory_comes_back() -> None:
    x = vg.tensor(array(64, 64))
    vg.eval(x)

    def live() -> int:
        gc.collect()
        vg.synchronize()
        return engine.device().native.counters["buffers_live"]

    def loop(count: int) -> None:
        y = x
        for _ in range(count):
            y = y * 0.5 + x
            vg.eval(y)

    loop(5)
    before = live()
    loop(200)
    assert live() <= before + 2


def test_a_loop_that_never_reads_is_flushed_by_itself() -> None:
    before = vg.stats().flushes
    x = vg.tensor(array(2))
    for _ in range(engine.MOST_PENDING_NODES // 2 + 100):
        x = x * 0.999 + 0.001
    assert vg.stats().flushes > before
    assert np.isfinite(x.numpy()).all()


def test_threads_with_their_own_graphs_equal_serial() -> None:
    def work(seed: int) -> np.ndarray:
        x = vg.tensor(array(16, 16, seed=seed))
        for _ in range(5):
            x = vg.tanh(x @ x.T * 0.1)
        return x.numpy()

    serial = [work(seed) for seed in range(8)]
    results: list[np.ndarray | None] = [None] * 8

    def run(seed: int) -> None:
        results[seed] = work(seed)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for a, b in zip(serial, results, strict=True):
        np.testing.assert_array_equal(a, b)


def test_host_policy() -> None:
    x = vg.tensor(np.array([0.5, 1.0]))
    if vg.default_device().kind == "cpu":
        np.testing.assert_allclose(vg.exp(x).numpy(), np.exp([0.5, 1.0]))
        return
    with config.override(f64=False):
        with pytest.raises(UnsupportedError, match=r"exp: float64\[2\] has no kernel on .*VKGRAD_F64=0"):
            vg.exp(x)
        with vg.host_policy("allow"), vg.counting() as c:
            y = vg.exp(x)
            np.testing.assert_allclose(y.numpy(), np.exp([0.5, 1.0]), rtol=1e-15)
        assert (c.host_nodes, c.host_bytes) == (1, 16)
        assert c.host_by_op == {("exp", 1, "float64"): [1, 16]}
        with vg.host_policy("warn"), pytest.warns(UserWarning, match="exp runs on the host"):
            vg.log(vg.exp(x)).numpy()


def test_float64_can_be_switched_off() -> None:
    x = vg.tensor(np.array([0.5, 1.0]))
    np.testing.assert_array_equal((x + 0.1).numpy(), np.array([0.5, 1.0]) + 0.1)
    if vg.default_device().kind != "cpu":
        with config.override(f64=False), pytest.raises(UnsupportedError, match="VKGRAD_F64=0"):
            x + 1


def test_devices_by_name_and_the_two_together() -> None:
    assert vg.devices()[-1] == "cpu"
    with pytest.raises(NoDeviceError, match=r"no Vulkan device 'no such thing'.*always 'cpu'"):
        engine.device("no such thing")
    here = vg.tensor(array(3))
    with config.override(device="cpu"):
        there = vg.tensor(array(3))
        np.testing.assert_array_equal((there + there).numpy(), array(3) * 2)
    if vg.default_device().kind != "cpu":
        with pytest.raises(VkgradError, match="different devices meet"):
            (here + there).numpy()
    vg.flush()


def test_empty_tensors_reach_no_kernel() -> None:
    x, weight = vg.zeros((0, 3)), vg.tensor(array(3, 2))
    assert vg.plan(x + 1, x @ weight).kernels == ()
    assert (x + 1).numpy().shape == (0, 3)
    assert (x @ weight).numpy().shape == (0, 2)
    total = x.sum(axis=0)
    (kernel,) = vg.plan(total).kernels
    assert kernel.parallel == (3,) and total.tolist() == [0.0, 0.0, 0.0]


def test_a_flushed_value_keeps_its_history_for_backward() -> None:
    w = vg.tensor([1.0, 2.0], requires_grad=True)
    loss = (w * w).sum()
    assert float(loss) == 5.0
    loss.backward()
    assert w.grad is not None and w.grad.tolist() == [2.0, 4.0]


@pytest.mark.device
def test_a_value_that_a_pass_would_have_made_is_none_of_the_inputs() -> None:
    """Sums of few places are compared with an iota by a pass; here a history of gradients keeps one with its value."""
    w = vg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    places = vg.arange(3, dtype=vg.int32)
    loss = (w * places).sum()
    assert float(loss) == 8.0 and places.tolist() == [0, 1, 2]
    values = np.arange(40, dtype="f4").reshape(20, 2)
    found = vg.segment_sum(vg.tensor(values), np.arange(20) % 3, 3).numpy()
    np.testing.assert_array_equal(found, [values[start::3].sum(0) for start in range(3)])
    loss.backward()
    assert w.grad is not None and w.grad.tolist() == [0, 1, 2]
