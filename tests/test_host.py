"""Where things ran, when the host is forced to take part: plans list it, readers name it, and nothing else computes.

An op is forced there by a host rule that always applies, on a Vulkan device. The last tests walk the package.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import vkgrad as vg
from tests.models import LeNet5, batches, sgd_step
from tests.test_residency import hosted, vulkan
from vkgrad import engine, optim
from vkgrad.ir.node import walk
from vkgrad.ir.op import OPS

__all__ = ["vulkan"]

PACKAGE = Path(vg.__file__).parent


@pytest.mark.device
def test_an_op_on_the_host_in_the_middle_of_lenet(vulkan: None) -> None:
    """Its plan lists each node of it, and no other; running it counts as many, and the result is the same."""
    model = LeNet5()
    x = vg.tensor(batches(1, 2, True)[0][0])
    vg.flush()
    expected = model(x).numpy()
    assert "host" not in Counter(where for _, where in vg.plan(model(x)).placement)
    with hosted("maximum"), hosted("relu"), hosted("max"), vg.host_policy("allow"):
        logits = model(x)
        report = vg.plan(logits)
        places = Counter(where for _, where in report.placement)
        on_host = [name for name, where in report.placement if where == "host"]
        assert Counter(name.split()[0].strip("<") for name in on_host) == {"relu": 4, "max": 2}
        assert sum(places.values()) == len(walk([logits.node], stop=engine.has_value))
        for name in on_host:
            assert f"on the host: {name}: always: this test says so" in str(report)
        with vg.counting() as census:
            found = logits.numpy()
    assert census.host_nodes == 6 and census.dispatches == len(report.kernels)
    assert {op for op, _, _ in census.host_by_op} == {"relu", "max"}
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.device
@pytest.mark.parametrize("known", [False, True], ids=["still to come", "already there"])
def test_what_reads_from_the_host_says_so(vulkan: None, known: bool) -> None:
    """The product that follows an op on the host names it, and only that one."""
    a, w = vg.ones((3, 4)), vg.ones((4, 5))
    vg.eval(a, w)
    with hosted("sigmoid"), vg.host_policy("allow"):
        x = vg.sigmoid(a)
        if known:
            vg.eval(x)
        report, other = vg.plan(x @ w), vg.plan(a @ w)
        (kernel,) = [number for number, k in enumerate(report.kernels) if k.kind == "contraction"]
        assert report.hosted[kernel] == ("<sigmoid float32[3, 4]>",)
        assert f"#{kernel} reads <sigmoid float32[3, 4]> from the host" in str(report)
        assert not any(other.hosted) and "from the host" not in str(other)


# ---- nothing else computes
# What NumPy offers to make, move and describe arrays, and to read what is in them for people.
NO_ARITHMETIC = set(
    re.findall(
        r"\w+",
        """
    ndarray generic integer number bool_ dtype ufunc intp int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16
    float32 float64 asarray array ascontiguousarray empty empty_like zeros zeros_like ones full arange frombuffer
    from_dlpack copyto reshape broadcast_to broadcast_shapes broadcast_arrays stack concatenate ndindex shape iinfo
    finfo nan inf pi newaxis errstate array2string __version__ random load savez may_share_memory array_equal moveaxis
    unravel_index prod lib floating
    """,
    )
)
# Who may do arithmetic with NumPy, and on what. `prod` is of shapes.
MAY = {
    "ops": "the meanings, which the CPU device and the one funnel of the host run",
    "runtime/access.py": "the CPU device", "runtime/blas.py": "the CPU device", "runtime/calls.py": "the CPU device",
    "runtime/cpu.py": "the CPU device", "runtime/lanes.py": "the CPU device", "runtime/matrix.py": "the CPU device",
    "runtime/overlap.py": "the CPU device", "runtime/padding.py": "the CPU device",
    "runtime/blocks.py": "the CPU device", "runtime/program.py": "the CPU device", "runtime/twin.py": "the CPU device",
    "runtime/one_thread.py": "the CPU device", "runtime/measure.py": "compares the results of two kernels",
    "engine.py": "the one funnel", "schedule/simplify.py": "literals",
    "testing.py": "compares results, for users", "bench": "references and statistics", "profile": "statistics",
    "cli": "probes with known answers", "viz": "pictures", "data": "samples on their way to the device",
}  # fmt: skip


# On indices, sizes and tables that the host makes, and nowhere on a tensor's values.
HARMLESS = {
    "draws/gammas.py": {"polynomial"},  # places and weights of a quadrature
    "onnx/loading.py": {"clip"},  # constants of a file, on their way to the device
    "onnx/operators.py": {"cumsum"},  # sizes of parts
    "fft.py": {"cos", "sin", "fft", "abs"},  # tables of roots of unity
    "functions/joining.py": {"ndim"},
    "functions/lookup.py": {"where"},  # indices that a user gave as an array
    "functions/sorting.py": {"floor", "ceil", "where", "linspace", "round"},  # a user's quantiles and edges
    "indexing.py": {"nonzero"},  # a mask that a user gave as an array
    "sklearn.py": {"where", "unique", "argmax"},  # labels and predictions, which scikit-learn has as arrays
    "showing.py": {"atleast_2d"},  # what a tensor looks like to people
    "nn/losses.py": {"argwhere"},  # labels of an error message
}


def arithmetic(text: str) -> set[str]:
    """The names of NumPy functions that compute, in a module's text."""
    return {
        node.attr
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in ("np", "numpy")
        and node.attr not in NO_ARITHMETIC
    }


def test_no_arithmetic_with_numpy_outside_the_funnel_and_the_cpu_device() -> None:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name in MAY or name.split("/")[0] in MAY:
            continue
        used = arithmetic(path.read_text(encoding="utf-8")) - HARMLESS.get(name, set())
        if used:
            found[name] = used
    assert not found, f"NumPy computes where only devices should; if not on a tensor's values, say so here: {found}"


def test_arithmetic_is_seen() -> None:
    """The null arm, and that no module is excused which need not be."""
    assert arithmetic("import numpy as np\ny = np.exp(x) + np.asarray(z)") == {"exp"}
    for name, excused in HARMLESS.items():
        assert excused <= arithmetic((PACKAGE / name).read_text(encoding="utf-8")), name
    assert all((PACKAGE / name).exists() for name in MAY)


@pytest.mark.device
def test_a_training_step_computes_nothing_on_the_host(vulkan: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every meaning made to fail, a step of LeNet still runs: no tensor's value is computed by NumPy."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the host computes")

    model = LeNet5()
    optimizer = optim.SGD(model, lr=0.1)
    step = sgd_step(model, optimizer)
    images, labels = (vg.tensor(array) for array in batches(1, 2, True)[0])
    for op in OPS.values():
        if op.arity:
            monkeypatch.setitem(op.__dict__, "numpy", refuse)
    loss = step(images, labels)
    assert np.isfinite(float(loss))
    with hosted("relu"), vg.host_policy("allow"), pytest.raises(AssertionError, match="the host computes"):
        vg.relu(images).numpy()
