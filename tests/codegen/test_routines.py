"""Routines: kernels with a template of their own, in every stage between the record and the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.codegen.run_kernel import GPU_LIKE, SOFTWARE
from tests.codegen.spirv_validation import validate
from tests.planned import plan_of
from tests.variants import close, draw, layouts
from vkgrad.codegen.cache import spirv
from vkgrad.codegen.kernel_class import class_of
from vkgrad.codegen.render import render
from vkgrad.config import config
from vkgrad.errors import DifferentiationError, UnsupportedError
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType, bool_, float32
from vkgrad.ir.node import Node
from vkgrad.ir.op import OPS, Shape
from vkgrad.ops.sources import leaf
from vkgrad.ops.views import permute
from vkgrad.schedule.kernel import Kernel
from vkgrad.schedule.plan import build_plan
from vkgrad.schedule.split import Width
from vkgrad.testing import check_grads

# Each element times the sum of its row: one invocation a row where Vulkan is software, else one workgroup.
TEMPLATE = """
layout(local_size_x = {{ lanes }}) in;
void main() {
    int row = {{ group }}, lane = int(gl_LocalInvocationID.x);
    if (row >= {{ number.rows }}) return;
    {{ output.type }} total = {{ output.literal(0) }};
    for (int i = 0; i < {{ number.columns }}; i++) total += {{ inputs[0].at("row * " ~ number.columns ~ " + i") }};
    for (int i = lane; i < {{ number.columns }}; i += {{ lanes }}) {
        int place = row * {{ number.columns }} + i;
        {{ output.put("place", inputs[0].at("place") ~ " * total") }}
    }
}
"""


def by_row(shapes: Sequence[Shape], dtypes: Sequence[DType], limits: Any, *, shared_bytes: int = 0) -> vg.Geometry:
    rows, columns = shapes[0]
    return vg.Geometry(
        groups=rows, numbers={"rows": rows, "columns": columns}, parameters={"lanes": 1 if limits.software else 32},
        shared_bytes=shared_bytes,
    )  # fmt: skip


def meaning(x: np.ndarray, **_: Any) -> np.ndarray:
    return (x * x.sum(-1, keepdims=True)).astype(x.dtype)


@pytest.fixture(scope="module")
def weighted() -> Iterator[Any]:
    yield vg.custom_kernel(
        "weighted", template=TEMPLATE, geometry=by_row, shape=lambda shapes, **_: shapes[0],
        dtype=lambda dtypes, **_: dtypes[0], numpy=meaning,
        grad=lambda g, out, x: (g * x.sum(-1, keepdims=True) + (g * x).sum(-1, keepdims=True),),
    )  # fmt: skip
    del OPS["weighted"]


@pytest.fixture(params=["vulkan", "cpu"])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    with config.override(device="cpu" if request.param == "cpu" else ""):
        yield request.param


@pytest.mark.device
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u4"])
def test_values_in_every_layout(weighted: Any, device: str, dtype: str) -> None:
    x = draw(5, 7, dtype=dtype, low=0)
    for name, array, tensor in layouts(x):
        close(weighted(tensor), meaning(array), cost=50, name=name)
        close(weighted(tensor + 1) - 1, meaning(array + 1) - 1, cost=50, name=name)
    close(weighted(vg.tensor(x).reshape(7, 5)), meaning(x.reshape(7, 5)), cost=50)
    assert weighted(vg.zeros((0, 3))).shape == (0, 3)


@pytest.mark.device
def test_gradients_to_the_second_order(weighted: Any, device: str) -> None:
    check_grads(weighted, (vg.tensor(draw(2, 3)),), order=2)
    check_grads(lambda x: vg.sin(weighted(x.T)), (vg.tensor(draw(2, 3)),))


@pytest.mark.device
def test_recorded_counted_and_in_one_submission(weighted: Any, device: str) -> None:
    x = vg.tensor(draw(4, 6))
    step = vg.jit(lambda x: weighted(vg.exp(x)).sum())
    first = step(x).item()
    step(x).item()
    with vg.counting() as counts:
        assert step(x).item() == first
    assert (counts.dispatches, counts.submissions, counts.host_nodes) == (3, 1, 0)


@pytest.mark.device
def test_a_reshape_is_no_copy_and_a_permutation_is_one(weighted: Any) -> None:
    x = vg.tensor(draw(4, 6))
    x.numpy()

    def kinds(y: vg.Tensor) -> list[str]:
        return [kernel.kind for kernel in vg.plan(y).kernels]

    assert kinds(weighted(x)) == ["routine"]
    assert kinds(weighted(x.reshape(8, 3))) == ["routine"]
    assert kinds(weighted(weighted(x).reshape(3, 8))) == ["routine", "routine"]
    assert kinds(weighted(x.T)) == ["map", "routine"]
    assert kinds(weighted(x * 2) * 2) == ["map", "routine", "map"], "nothing fuses into a routine"
    (kernel,) = vg.plan(weighted(x)).kernels
    assert kernel.ops == ("weighted",) and kernel.bytes_read == kernel.bytes_written == 96
    assert "routine" in {box.style for box in vg.viz.plan(weighted(x)).boxes.values()}


@pytest.mark.device
def test_it_never_takes_the_memory_that_it_reads(weighted: Any, device: str) -> None:
    w = vg.tensor(draw(3, 4))
    array = w.numpy()

    @vg.jit
    def step(state: dict) -> dict:
        return {"w": weighted(state["w"]) / 10}

    state = {"w": w}
    for _ in range(3):
        state, array = step(state), meaning(array) / 10
    close(state["w"], array, cost=20)


def kernel_of(node: Node) -> Kernel:
    (kernel,) = plan_of([node])[0].kernels
    return kernel


def node_of(shape: Shape, dtype: DType = float32, **attributes: Any) -> Node:
    return b.build("weighted", leaf(shape, dtype), **attributes)


@pytest.mark.parametrize("limits", [SOFTWARE, GPU_LIKE], ids=["software", "GPU"])
def test_sizes_are_no_part_of_the_text(weighted: Any, limits: Any) -> None:
    one, two = (render(kernel_of(node_of(shape)), limits) for shape in ((3, 5), (70, 2)))
    assert one.source == two.source and one.numbers != two.numbers and one.groups != two.groups
    validate(spirv(one.source, one.row))
    assert dict(one.parameters) == {"lanes": 1 if limits.software else 32}
    assert one.row == "weighted" and class_of(kernel_of(node_of((3, 5)))) is None


def test_what_a_kernel_knows_of_a_routine(weighted: Any) -> None:
    x = leaf((6, 4), float32)
    target = b.build("weighted", b.reshape(x, (3, 8)))
    plan, _ = plan_of([target])
    (kernel,) = plan.kernels
    assert kernel.routine is not None and kernel.routine.shapes == ((3, 8),)
    assert kernel.places == 24 and kernel.terms == 1 and kernel.written == (1,)
    # The output may not take the place of the input, though both are alike.
    plan, _ = plan_of([node := b.build("weighted", x)], replaces={node: x})
    assert plan.in_place == {}


def test_too_much_shared_memory_is_refused(weighted: Any) -> None:
    op = replace(OPS["weighted"], geometry=lambda *args: by_row(*args, shared_bytes=1 << 20))
    kernel = kernel_of(b.build(op, leaf((3, 4), float32)))
    with pytest.raises(UnsupportedError, match=r"weighted: a workgroup needs 1,048,576 bytes .* has 32,768"):
        render(kernel, SOFTWARE)


def test_passes_are_asked_until_nothing_changes(weighted: Any) -> None:
    def halved(node: Node, width: Width) -> Node:
        x = node.inputs[0]
        return node if x.shape[0] == 1 else b.build(op, b.reshape(x, (x.shape[0] // 2, x.shape[1] * 2)))

    op = replace(OPS["weighted"], passes=halved, shape=lambda shapes, **_: (1, 32))
    x = leaf((8, 4), float32)
    plan = build_plan([b.build(op, x)], [x], max_buffers=8, width=Width(32, 1, 1024))
    assert [kernel.routine.shapes for kernel in plan.kernels if kernel.routine] == [((1, 32),)]
    plan = build_plan([b.build(op, x)], [x], max_buffers=8)
    assert [kernel.routine.shapes for kernel in plan.kernels if kernel.routine] == [((8, 4),)]


def test_two_routines_side_by_side_share_a_level(weighted: Any) -> None:
    x = leaf((3, 4), float32)
    plan, _ = plan_of([b.build("weighted", x), b.build("weighted", permute(x, (1, 0)))])
    assert sorted(plan.levels) == [0, 0, 1]


def test_a_record_must_be_whole(weighted: Any) -> None:
    for field in ("template", "geometry"):
        with pytest.raises(TypeError, match=f"must state a {field} exactly if it is a routine"):
            replace(OPS["weighted"], **{field: None})
    with pytest.raises(TypeError, match="must state passes only if it is a routine"):
        replace(OPS["add"], passes=lambda node, width: node)
    with pytest.raises(TypeError, match="registered twice"):
        vg.custom_kernel(
            "weighted", template="x", geometry=by_row, shape=lambda s: s[0], dtype=lambda d: d[0], numpy=meaning
        )


DOUBLED = """
layout(local_size_x = 1) in;
void main() {
    int i = {{ group }};
    if (i >= {{ number.count }}) return;
    {{ output.put("i", "FACTOR * " ~ inputs[0].at("i")) }}
}
"""


@pytest.mark.device
def test_a_kernel_may_be_replaced_and_what_it_made_stays(device: str) -> None:
    def make(name: str, factor: float, **options: Any) -> Any:
        return vg.custom_kernel(
            name, template=DOUBLED.replace("FACTOR", str(factor)), shape=lambda s: s[0], dtype=lambda d: d[0],
            geometry=lambda shapes, dtypes, limits: vg.Geometry(groups=shapes[0][0], numbers={"count": shapes[0][0]}),
            numpy=lambda x: np.float32(factor) * x, grad=lambda g, out, x: (factor * g,), **options,
        )  # fmt: skip

    x = vg.tensor([1.0, 2.0])
    try:
        first = make("multiplied", 2.0, replace=True)
        assert first(x).tolist() == [2, 4]
        with pytest.raises(TypeError, match=r"registered twice.*replace=True"):
            make("multiplied", 3.0)
        second = make("multiplied", 3.0, replace=True)
        assert (second(x).tolist(), first(x).tolist()) == ([3, 6], [2, 4])
        assert vg.grad(lambda x: second(x).sum())(x).tolist() == [3, 3]
        with pytest.raises(TypeError, match="registered twice"):
            make("exp", 2.0, replace=True)
    finally:
        del OPS["multiplied"]


MASKS = """
layout(local_size_x = 1) in;
void main() {
    int i = {{ group }};
    if (i >= {{ number.count }}) return;
    {{ output.put("i", "!" ~ inputs[0].at("i") ~ " && " ~ inputs[1].at("i")) }}
}
"""


@pytest.mark.device
def test_masks_are_words_in_memory(device: str) -> None:
    call = vg.custom_kernel(
        "not_but", template=MASKS, arity=2, shape=lambda shapes: shapes[0], dtype=lambda dtypes: bool_,
        geometry=lambda shapes, dtypes, limits: vg.Geometry(groups=shapes[0][0], numbers={"count": shapes[0][0]}),
        numpy=lambda x, y: ~x & y,
    )  # fmt: skip
    try:
        x, y = vg.tensor([True, False, False]), vg.tensor([True, True, False])
        assert call(x, y).tolist() == [False, True, False]
        assert call(x, x).tolist() == [False, False, False]
        with pytest.raises(DifferentiationError):
            vg.grad(lambda z: call(z > 0, z > 1))(vg.tensor([1.0]))
    finally:
        del OPS["not_but"]
