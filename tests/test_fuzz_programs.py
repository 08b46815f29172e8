"""Random programs through every way of running them: fused or not, in any batches, recorded, read in between, on the
NumPy twin and on Vulkan; values against NumPy in double precision, gradients against differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.programs import Program, draw_program
from vkgrad.config import config

LENGTH = 16


def tensors(program: Program, dtype: str) -> list[vg.Tensor]:
    return [vg.tensor(a.astype(dtype) if a.dtype.kind == "f" else a) for a in program.inputs]


def arrays(values: Sequence[vg.Tensor]) -> list[np.ndarray]:
    vg.eval(values)
    return [value.numpy() for value in values]


def assert_close(
    found: Sequence[np.ndarray], program: Program, expected: Sequence[np.ndarray], tolerance: float
) -> None:
    for number, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert a.shape == b.shape, f"v{number + len(program.inputs)} of\n{program.text()}"
        message = f"v{number + len(program.inputs)} of\n{program.text()}"
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=message)


def assert_same(found: Sequence[np.ndarray], expected: Sequence[np.ndarray], program: Program, way: str) -> None:
    for number, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert a.tobytes() == b.tobytes(), f"{way}: v{number + len(program.inputs)} of\n{program.text()}"


@pytest.mark.parametrize("block", range(8))
def test_double_precision_equals_numpy_in_any_order_of_reading(block: int, on_cpu: None) -> None:
    """Only some values asked for, or all; read at once, or in between; names dropped on the way."""
    for seed in range(block * 15, block * 15 + 15):
        program = draw_program(seed, LENGTH)
        expected = program.run_numpy(program.inputs)
        assert_close(arrays(program.run(tensors(program, "f8"))), program, expected, 1e-9)
        last = program.run(tensors(program, "f8"))[-1:]
        assert_close(arrays(last), program, expected[-1:], 1e-9)

        draw = np.random.Generator(np.random.Philox(seed))

        def meddle(values: list[Any], draw: np.random.Generator = draw) -> None:
            match draw.integers(5):
                case 0:
                    values[int(draw.integers(len(values)))].numpy()
                case 1:
                    vg.flush()
                case 2:
                    chosen = values[int(draw.integers(len(values)))]
                    chosen.assign(chosen * 1)
                case 3:
                    _ = [v + 1 for v in values[-3:]]  # pending until the next line

        assert_close(arrays(program.run(tensors(program, "f8"), meddle)), program, expected, 1e-9)


def ways(program: Program) -> dict[str, Callable[[], list[np.ndarray]]]:
    inputs = tensors(program, "f4")
    vg.eval(inputs)
    recorded = vg.jit(lambda inputs: program.run(inputs))

    def under(**switches: Any) -> Callable[[], list[np.ndarray]]:
        def run() -> list[np.ndarray]:
            with config.override(**switches):
                return arrays(program.run(inputs))

        return run

    return {
        "again": under(),
        "unfused": under(fuse=False),
        "no shared expressions": under(cse=False),
        "each dispatch alone": under(batch_max=0),
        "batches of 3": under(batch_max=3),
        "recorded": lambda: [v.numpy() for v in recorded(inputs)],
        "replayed": lambda: [v.numpy() for v in recorded(inputs)],
    }


@pytest.mark.parametrize("block", range(4))
def test_every_way_gives_the_same_bits_on_the_twin(block: int, on_cpu: None) -> None:
    for seed in (1287, *range(200 + block * 10, 210 + block * 10)):
        program = draw_program(seed, LENGTH)
        expected = arrays(program.run(tensors(program, "f4")))
        for way, run in ways(program).items():
            assert_same(run(), expected, program, way)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_sum_does_not_depend_on_where_its_terms_come_from(axis: int, on_cpu: None) -> None:
    """NumPy adds in the order of memory, which is another one for what is loaded than for what is computed."""
    x = vg.tensor(np.random.default_rng(5).normal(size=(8, 5, 9)).astype(np.float32))
    fused = vg.sum(vg.exp(x) * x, axis).numpy()
    with config.override(fuse=False):
        assert vg.sum(vg.exp(x) * x, axis).numpy().tobytes() == fused.tobytes()


@pytest.mark.parametrize("seed", range(300, 304))
def test_vulkan_agrees_with_numpy_and_with_itself(seed: int) -> None:
    program = draw_program(seed, LENGTH)
    found = arrays(program.run(tensors(program, "f4")))
    assert_close(found, program, program.run_numpy(program.inputs), 1e-4)
    for way, run in ways(program).items():
        assert_same(run(), found, program, way)


@pytest.mark.parametrize("seed", range(400, 402))
def test_double_precision_arithmetic_on_vulkan(seed: int) -> None:
    program = draw_program(seed, LENGTH, arithmetic=True)
    found = arrays(program.run(tensors(program, "f8")))
    assert_close(found, program, program.run_numpy(program.inputs), 1e-12)


def total(program: Program, values: Sequence[Any], weights: Sequence[np.ndarray]) -> Any:
    floats = [v for v in values if str(v.dtype).rpartition(".")[2] in ("float64", "float32")]
    return sum((v * w).sum() for v, w in zip(floats, weights, strict=True))


@pytest.mark.parametrize("block", range(3))
def test_gradients_equal_differences(block: int, on_cpu: None) -> None:
    for seed in range(500 + block * 10, 510 + block * 10):
        program = draw_program(seed, LENGTH, smooth=True)
        draw = np.random.Generator(np.random.Philox(seed))
        shapes = [v.shape for v in program.values[len(program.inputs) :] if v.dtype.kind == "f"]
        weights = [draw.normal(size=shape) for shape in shapes]
        points = [a for a in program.inputs if a.dtype.kind == "f"]
        rest = [a for a in program.inputs if a.dtype.kind != "f"]
        directions = [draw.normal(size=p.shape) for p in points]

        def loss(
            points: list[vg.Tensor], program: Program = program, weights: list = weights, rest: list = rest
        ) -> Any:
            return total(program, program.run([*points, *map(vg.tensor, rest)]), weights)

        given = [vg.tensor(p) for p in points]
        gradients = vg.grad(loss)(given)
        slope = sum(float((g.numpy() * d).sum()) for g, d in zip(gradients, directions, strict=True))
        ends = []
        for step in (1e-5, -1e-5):
            moved = [p + step * d for p, d in zip(points, directions, strict=True)]
            ends.append(total(program, program.run_numpy([*moved, *rest]), weights))
        numeric = (ends[0] - ends[1]) / 2e-5
        message = f"seed {seed}: {slope} {numeric}\n{program.text()}"
        assert abs(slope - numeric) <= 1e-6 * max(1.0, abs(numeric)), message
        recorded = vg.jit(lambda points: vg.grad(loss)(points))
        for _ in range(2):
            for a, b in zip(recorded(given), gradients, strict=True):
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-12)


def test_the_fuzzer_sees_a_wrong_step(on_cpu: None) -> None:
    program = draw_program(3, LENGTH)
    wrong = program.steps[4]
    right = wrong.vkgrad
    wrong.vkgrad = lambda *sources: right(*sources) * 1.0000001
    with pytest.raises(AssertionError):
        assert_close(arrays(program.run(tensors(program, "f8"))), program, program.run_numpy(program.inputs), 1e-9)
