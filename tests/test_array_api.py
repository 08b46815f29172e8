"""The array API standard, version 2024.12: every name with its signature, and what functions do, beside NumPy.

The list is `docs/array_api_2024_12.txt`, written by hand from the standard. Functions that have tests of their own are
not tested for their values again, only for what the standard adds: types, keywords, named results.
"""

from __future__ import annotations

import inspect
import math
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.variants import close, draw
from vkgrad.config import config
from vkgrad.errors import DifferentiationError, DTypeError, NoDeviceError, OptionError, ShapeError

standard = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[1] / "docs" / "array_api.py")))
COMPLEX_ONLY = {"complex64", "complex128"}


# ---- names and signatures
def test_everything_is_there_but_complex_types(capsys: pytest.CaptureFixture) -> None:
    found = list(standard.entries())
    absent = {entry.name for entry in found if not entry.present}
    with capsys.disabled():
        print(f"\narray API 2024.12: {len(found) - len(absent)} of {len(found)} present, absent: {sorted(absent)}")
    assert absent <= COMPLEX_ONLY
    assert len(found) == 231


def test_every_call_of_the_standard_is_taken() -> None:
    complaints = {entry.name: entry.complaint for entry in standard.entries() if entry.complaint}
    assert complaints == {}


@pytest.mark.parametrize(
    ("wanted", "given", "complaint"),
    [
        ("(x, /, *, axis=None)", lambda x, axis=None, more=1: 0, ""),
        ("(x, /, *, axis=None)", lambda x: 0, "axis is not taken by name"),
        ("(x, /, *, axis=-1)", lambda x, axis=0: 0, "axis is 0 by default, not -1"),
        ("(x1, x2, /)", lambda x: 0, "x2 is not taken by position"),
        ("(x, /)", lambda x, more: 0, "more is needed"),
        ("(x, /)", lambda x, *, more: 0, "more is needed"),
        ("(x, axis)", lambda axis, x: 0, "x stands elsewhere"),
        ("(*arrays)", lambda x: 0, "takes no *arrays"),
        ("(x, /, shape)", lambda x, *extents, shape=None: 0, ""),
    ],
)
def test_the_checker_finds_what_does_not_fit(wanted: str, given: Any, complaint: str) -> None:
    assert standard.misfit(standard.parsed(wanted), inspect.signature(given)) == complaint


def test_the_namespace_says_what_it_is() -> None:
    assert vg.__array_api_version__ == "2024.12"
    x = vg.tensor([1.0])
    assert x.__array_namespace__() is vg is x.__array_namespace__(api_version="2023.12")
    with pytest.raises(ValueError, match="2019"):
        x.__array_namespace__(api_version="2019.01")
    assert (vg.e, vg.pi, vg.inf, vg.newaxis) == (math.e, math.pi, math.inf, None) and math.isnan(vg.nan)
    info = vg.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}
    assert info.default_dtypes()["real floating"] is vg.float32 and info.default_dtypes()["indexing"] is vg.int32
    assert "cpu" in info.devices()
    assert info.default_device() is x.device
    assert info.dtypes(device="cpu", kind="signed integer") == {
        "int8": vg.int8, "int16": vg.int16, "int32": vg.int32, "int64": vg.int64,
    }  # fmt: skip
    assert list(info.dtypes(device="cpu")) == [
        name for name in vg.ir.dtypes.DTYPES if "16" not in name or "int" in name
    ]
    assert info.dtypes(device="cpu", kind=("bool", "complex floating")) == {"bool": vg.bool}
    with pytest.raises(OptionError, match="no kind 'float'"):
        info.dtypes(kind="float")


def test_types_follow_the_device() -> None:
    with config.override(device="cpu"):
        assert "float64" in vg.__array_namespace_info__().dtypes()
    assert ("float64" in vg.__array_namespace_info__().dtypes()) == (vg.tensor(1.0).device.lacks(vg.float64) is None)


# ---- complex numbers are refused in one way
@pytest.mark.parametrize(
    "make",
    [
        lambda: vg.asarray(1j), lambda: vg.tensor(np.zeros(2, np.complex64)), lambda: vg.zeros(2, dtype="complex128"),
        lambda: vg.ones(2).astype(np.complex64), lambda: vg.add(vg.ones(2), 1j), lambda: vg.full(2, np.complex64(1)),
    ],
)  # fmt: skip
def test_complex_numbers_are_refused(make: Any) -> None:
    with pytest.raises(DTypeError, match="no complex numbers: a complex tensor is one of floats with a last axis of"):
        make()


def test_complex_types_say_what_to_use() -> None:
    with pytest.raises(AttributeError, match=r"no complex64: .*last axis of extent 2"):
        vg.complex64  # noqa: B018
    assert vg.isdtype(vg.float32, "complex floating") is False


# ---- devices
@pytest.fixture
def here(on_cpu: None) -> Any:
    return vg.tensor(1.0).device


def test_creation_takes_a_device(here: Any) -> None:
    for made in (
        vg.zeros(2, device="cpu"), vg.arange(3, device=here), vg.eye(2, device=here), vg.asarray([1], device="cpu"),
        vg.full_like(vg.ones(2), 3, device=here), vg.from_dlpack(np.ones(2), device="cpu"),
        vg.fft.fftfreq(4, device="cpu"), vg.linspace(0, 1, 3, device=here),
    ):  # fmt: skip
        assert made.device is here
    with pytest.raises(NoDeviceError, match="is no device"):
        vg.zeros(2, device=3.5)
    with pytest.raises(NoDeviceError):
        vg.zeros(2, device="no such device")


@pytest.mark.device
def test_tensors_go_to_other_devices() -> None:
    gpu = vg.arange(3)
    vg.eval(gpu)
    there = gpu.to_device("cpu")
    assert there.device is not gpu.device and there.device.kind == "cpu" and gpu.device.kind == "vulkan"
    close(there + 1, np.array([1, 2, 3], np.int32))
    back = there.to_device(gpu.device)
    assert back.device is gpu.device
    close(back + gpu, np.array([0, 2, 4], np.int32))
    assert gpu.to_device(gpu.device) is gpu
    made = vg.ones(2, device="cpu")
    assert made.device.kind == "cpu"
    close(made + vg.ones(2, device="cpu"), np.full(2, 2, np.float32))
    with pytest.raises(DifferentiationError, match="no gradient travels"):
        vg.tensor(1.0, requires_grad=True).to_device("cpu")


# ---- the array object
def test_numbers_of_python() -> None:
    assert complex(vg.tensor(2.5)) == 2.5 + 0j
    assert [10, 20, 30][vg.tensor(1)] == 20
    for wrong in (vg.tensor(1.0), vg.tensor([1]), vg.tensor(True)):
        with pytest.raises(TypeError, match="is an index"):
            [10, 20][wrong]


def test_operators_in_place_make_new_values() -> None:
    before = x = vg.tensor([1.0, 2.0])
    x += 1
    x *= vg.tensor([2.0, 3.0])
    x **= 2
    close(x, np.array([16.0, 81.0], np.float32))
    close(before, np.array([1.0, 2.0], np.float32))
    y = vg.tensor([7, 9])
    y //= 2
    y <<= 1
    y |= 1
    close(y, np.array([7, 9], np.int32))
    with pytest.raises(TypeError, match=r"x\.at\[index\]\.set"):
        x[0] = 1


def test_copies() -> None:
    x = vg.tensor([1.0, 2.0])
    assert vg.asarray(x) is x and vg.asarray(x, copy=False) is x
    assert vg.asarray(x, copy=True) is not x
    close(vg.asarray(x, copy=True), x.numpy())
    close(vg.grad(lambda x: (vg.asarray(x, copy=True) ** 2).sum())(x), np.array([2.0, 4.0], np.float32))
    close(vg.reshape(x, shape=(2, 1), copy=True), x.numpy().reshape(2, 1))
    assert vg.astype(x, vg.int32, copy=False).dtype is vg.int32
    for refused in (lambda: vg.asarray([1.0], copy=False), lambda: vg.asarray(x, dtype=vg.int32, copy=False)):
        with pytest.raises(ValueError, match="cop"):
            refused()


# ---- other frameworks
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "int16", "bool", "float16"])
def test_dlpack_both_ways(dtype: str, on_cpu: None) -> None:
    if dtype == "bool" and np.__version__.startswith("1."):
        pytest.skip("NumPy 1 has no bool in DLPack")
    array = draw(3, 4, low=0, high=3).astype(dtype)
    close(vg.from_dlpack(array), array)
    back = np.from_dlpack(vg.tensor(array) + vg.zeros((3, 4), dtype=dtype) if dtype != "bool" else vg.tensor(array))
    assert back.dtype == array.dtype and np.array_equal(back, array)


def test_dlpack_keywords() -> None:
    x = vg.tensor([1.0])
    assert x.__dlpack_device__() == (1, 0)
    x.__dlpack__(dl_device=(1, 0), copy=True, stream=None, max_version=(1, 0))
    for options in ({"dl_device": (2, 0)}, {"copy": False}):
        with pytest.raises(BufferError):
            x.__dlpack__(**options)
    with pytest.raises(BufferError, match="no bfloat16"):
        vg.ones(2, dtype=vg.bfloat16).__dlpack__()
    with pytest.raises(ValueError, match="copied"):
        vg.from_dlpack(np.ones(2), copy=False)
    with pytest.raises(TypeError, match="does not speak DLPack"):
        vg.from_dlpack([1.0])


def test_numpy_converts() -> None:
    x = vg.tensor([1.5, 2.5])
    assert np.asarray(x).dtype == np.float32
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert x.__array__(np.int32).tolist() == [1, 2]
    with pytest.raises(ValueError, match="only have a copy"):
        x.__array__(copy=False)
    assert vg.Tensor.__array_ufunc__ is None
    close(np.float32(2) * x, np.array([3.0, 5.0], np.float32))
    close(np.ones(2, np.float32) - x, np.array([-0.5, -1.5], np.float32))


def test_einops() -> None:
    einops = pytest.importorskip("einops", reason="einops is in the dev extra: script/bootstrap dev installs it")
    image = draw(2, 3, 4, 6)
    x = vg.tensor(image)
    for pattern, sizes in (("b c (h p) (w q) -> b h w (p q c)", {"p": 2, "q": 3}), ("b c h w -> (b w) (c h)", {})):
        close(einops.rearrange(x, pattern, **sizes), einops.rearrange(image, pattern, **sizes))
    for operation in ("sum", "mean", "max", "min", "prod"):
        expected = einops.reduce(image, "b c (h 2) w -> c h", operation)
        close(einops.reduce(x, "b c (h 2) w -> c h", operation), expected, 20)
    close(einops.repeat(x[0, 0], "h w -> h c (w 2)", c=3), einops.repeat(image[0, 0], "h w -> h c (w 2)", c=3))
    close(
        einops.einsum(x, x, "b c h w, b d h w -> b c d"), einops.einsum(image, image, "b c h w, b d h w -> b c d"), 40
    )
    packed, shapes = einops.pack([x[0], x[:, 0, 0]], "* w")
    close(packed, einops.pack([image[0], image[:, 0, 0]], "* w")[0])
    close(einops.unpack(packed, shapes, "* w")[1], image[:, 0, 0])
    close(einops.rearrange([x[0], x[1]], "b c h w -> c b h w"), image.transpose(1, 0, 2, 3))
    slope = vg.grad(lambda x: (einops.reduce(x, "b c h w -> c", "mean") ** 2).sum())(x)
    assert slope.shape == x.shape


# ---- element types of results
TYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"]


@pytest.mark.parametrize("first", TYPES)
def test_promotion_is_numpys(first: str, on_cpu: None) -> None:
    for second in TYPES:
        kinds = {np.dtype(name).kind for name in (first, second)} - {"b"}
        if (
            ("f" in kinds and len(kinds) > 1)
            or ({first, second} & {"uint64"} and "i" in kinds)
            or "bool" in (first, second)
        ):
            continue  # left open by the standard
        wanted = np.result_type(first, second).name
        assert vg.result_type(getattr(vg, first), getattr(vg, second)).name == wanted
        assert (vg.ones(2, dtype=first) + vg.ones(2, dtype=second)).dtype.name == wanted
        assert vg.can_cast(getattr(vg, first), getattr(vg, second)) == np.can_cast(first, second)


@pytest.mark.parametrize("name", ["sum", "prod", "cumulative_sum", "cumulative_prod"])
def test_sums_have_the_default_type_or_their_own(name: str, on_cpu: None) -> None:
    for dtype in TYPES[1:]:
        found = getattr(vg, name)(vg.ones(3, dtype=dtype)).dtype
        given = getattr(vg, dtype)
        if given.kind == "f" or given.size_bytes == 8:
            assert found is given
        else:
            assert found is (vg.int32 if given.kind == "i" else vg.uint32)
        assert getattr(vg, name)(vg.ones(3, dtype=dtype), dtype=vg.float32).dtype is vg.float32


def test_indices_have_the_type_for_indices() -> None:
    x = vg.tensor([3.0, 1.0, 2.0])
    found = [vg.argmax(x), vg.argsort(x), vg.nonzero(x)[0], vg.searchsorted(vg.sort(x), x), vg.count_nonzero(x)]
    found += [vg.unique_all(x).indices, vg.unique_all(x).inverse_indices, vg.unique_counts(x).counts]
    assert {one.dtype for one in found} == {vg.__array_namespace_info__().default_dtypes()["indexing"]}


# ---- what functions do, where they have no test of their own
FLOATS = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 3e38, 1e-40], np.float32)


@pytest.mark.parametrize("name", ["copysign", "nextafter", "hypot"])
def test_pairs_of_floats(name: str) -> None:
    first, second = (grid.copy() for grid in np.meshgrid(FLOATS, FLOATS))
    if name == "hypot":
        first[np.abs(first) < 1e-38] = second[np.abs(second) < 1e-38] = 0  # a driver may flush denormals
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(first, second)
    found = getattr(vg, name)(vg.tensor(first), vg.tensor(second)).numpy()
    np.testing.assert_allclose(found, expected, rtol=4e-7 if name == "hypot" else 0)
    numbers = ~np.isnan(expected)
    assert np.array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])


def test_signs() -> None:
    assert vg.signbit(vg.tensor(FLOATS[:6])).tolist() == np.signbit(FLOATS[:6]).tolist()
    close(vg.positive(vg.tensor([1.0, -1.0])), np.array([1.0, -1.0], np.float32))
    x = vg.tensor([1, 2])
    assert vg.real(x) is x is vg.conj(x)
    close(vg.imag(x), np.zeros(2, np.int32))


def test_hypot_has_gradients_everywhere() -> None:
    slopes = vg.grad(vg.hypot, argnums=(0, 1))
    assert [float(slope) for slope in slopes(vg.tensor(3.0), vg.tensor(4.0))] == pytest.approx([0.6, 0.8])
    assert [float(slope) for slope in slopes(vg.tensor(0.0), vg.tensor(0.0))] == [0, 0]
    assert [float(slope) for slope in slopes(vg.tensor(3e30), vg.tensor(4e30))] == pytest.approx([0.6, 0.8])
    assert float(vg.grad(vg.grad(vg.hypot))(vg.tensor(4.0), vg.tensor(3.0))) == pytest.approx(9 / 125, rel=1e-5)


REPEATS = [([2, 0, 3], 0), ([1, 2], 1), ([2], 1), (3, 0), (2, None), ([1, 0, 2, 0, 1, 1], None)]


@pytest.mark.parametrize(("repeats", "axis"), REPEATS, ids=str)
def test_repeat(repeats: Any, axis: int | None) -> None:
    array = draw(3, 2)
    expected = np.repeat(array, repeats, axis)
    close(vg.repeat(vg.tensor(array), repeats, axis=axis), expected)
    if not isinstance(repeats, int):
        close(vg.repeat(vg.tensor(array), vg.tensor(repeats), axis=axis), expected)
        close(vg.repeat(vg.tensor(array), vg.tensor(repeats), axis=axis, size=expected.shape[axis or 0]), expected)
    with pytest.raises(ShapeError, match="repeat: needs one integer"):
        vg.repeat(vg.tensor(array), [1, 2, 3, 4, 5], axis=0)


def test_repeat_sends_gradients_back() -> None:
    x = vg.tensor([1.0, 2.0, 3.0])
    weights = vg.tensor([1.0, 10.0, 100.0, 1000.0])
    close(
        vg.grad(lambda x: (vg.repeat(x, vg.tensor([1, 0, 3])) * weights).sum())(x), np.array([1, 0, 1110], np.float32)
    )


def test_named_results() -> None:
    x = vg.tensor([3, 1, 3, 2])
    assert vg.unique_counts(x).counts.tolist() == [1, 1, 2]
    assert vg.unique_inverse(x).inverse_indices.tolist() == [2, 0, 2, 1]
    assert vg.unique_all(x)._fields == ("values", "indices", "inverse_indices", "counts")
    square = vg.tensor([[2.0, 1.0], [1.0, 3.0]])
    assert vg.linalg.eigh(square)._fields == ("eigenvalues", "eigenvectors")
    assert vg.linalg.qr(square)._fields == ("Q", "R")
    assert vg.linalg.slogdet(square)._fields == ("sign", "logabsdet")
    assert vg.linalg.svd(square)._fields == ("U", "S", "Vh")


def test_creation_by_the_standard() -> None:
    assert vg.zeros((2,), dtype=None).dtype is vg.float32
    assert vg.full(3, True).dtype is vg.bool and vg.full(3, 2).dtype is vg.int32
    close(vg.eye(2, 3, k=1), np.eye(2, 3, 1, np.float32))
    close(vg.linspace(0, 1, num=5, endpoint=False), np.linspace(0, 1, 5, endpoint=False, dtype=np.float32))
    close(vg.expand_dims(vg.ones(2)), np.ones((1, 2), np.float32))
    close(vg.linalg.trace(vg.ones((3, 3)), dtype=vg.int32), np.array(3, np.int32))


@pytest.mark.parametrize("n", [6, 7])
def test_hermitian_transforms(n: int) -> None:
    half = draw(n // 2 + 1, 2)
    whole = half @ [1, 1j]
    for norm in ("backward", "ortho", "forward"):
        close(vg.fft.hfft(half, n=n, norm=norm), np.fft.hfft(whole, n, norm=norm).astype(np.float32), 8)
        line = draw(n)
        expected = np.fft.ihfft(line, norm=norm)
        pairs = np.stack([expected.real, expected.imag], -1).astype(np.float32)
        close(vg.fft.ihfft(line, norm=norm), pairs, 8)
