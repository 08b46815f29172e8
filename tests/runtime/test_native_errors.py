"""Each exception of the native runtime, provoked; the process goes on after it."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.runtime.native_shaders import spirv
from tests.runtime.test_native import finished, reversals, run_child
from vkgrad import errors
from vkgrad.runtime import _native
from vkgrad.runtime._native import Device

pytestmark = [pytest.mark.device, pytest.mark.swiftshader]
validated = pytest.mark.validation


@pytest.fixture
def device() -> Iterator[Device]:
    opened = Device()
    yield opened
    assert_works(opened)
    opened.close()


def assert_works(device: Device) -> None:
    buffer = device.buffer(64, "download")
    plan = device.plan()
    plan.fill(buffer, 5)
    assert device.wait(device.submit(finished(plan)))
    assert buffer.read(0, 4) == b"\5\0\0\0"


# no driver, no device

ASK = """
import vkgrad.errors as e
for ask in (lambda: Device(), lambda: _native.list_devices()):
    try: print(type(ask()).__name__)
    except e.VulkanError as error: print(type(error).__name__, "|", error)
"""


def answers(**environment: str) -> list[str]:
    child = run_child(ASK, **environment)
    assert child.returncode == 0, child.stderr
    return child.stdout.splitlines()


def drivers(path: str) -> dict[str, str]:
    return {"VK_DRIVER_FILES": path, "VK_ICD_FILENAMES": path}


def test_no_loader() -> None:
    for answer in answers(VKGRAD_LIBVULKAN="libvulkan_absent.so"):
        assert answer.startswith("NoDriverError | the Vulkan loader could not be opened") and "libvulkan1" in answer


def test_no_driver(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text('{"file_format_version": "1.0.0", "ICD": {"library_path": "/absent.so", "api_version": "1.3.0"}}')
    for path in ("/absent.json", str(broken)):
        for answer in answers(**drivers(path)):
            assert answer.startswith("NoDriverError | no Vulkan driver was found") and "mesa-vulkan-drivers" in answer


def test_drivers_without_a_device() -> None:
    radeon = sorted(Path("/usr/share/vulkan/icd.d").glob("radeon_icd.*.json"))
    if not radeon:
        pytest.skip("no driver without a device is installed here")
    opened, listed = answers(**drivers(str(radeon[0])))
    if listed == "list" and "NoDevice" not in opened:
        pytest.skip("this machine has a Radeon")
    assert opened.startswith("NoDeviceError | a Vulkan driver is there, but no Vulkan device")
    assert listed == "list"


def test_a_later_attempt_may_succeed() -> None:
    code = """
import vkgrad.errors as e
try: Device()
except e.NoDriverError: os.environ.pop("VK_ICD_FILENAMES"), os.environ.pop("VK_DRIVER_FILES")
print(Device().info["type"])
"""
    child = run_child(code, **drivers("/absent.json"))
    assert (child.returncode, child.stderr) == (0, ""), child.stderr


@validated
def test_device_index(device: Device) -> None:
    names = [found["name"] for found in _native.list_devices()]
    with pytest.raises(errors.NoDeviceError, match="there is no Vulkan device 99; choose one of: 0 = ") as raised:
        Device(99)
    assert all(name in str(raised.value) for name in names)


# memory


def test_buffer_larger_than_the_device_allocates(device: Device) -> None:
    with pytest.raises(errors.OutOfDeviceMemoryError, match=r"allocates at most .*: split the tensor") as raised:
        device.buffer(1 << 50)
    assert isinstance(raised.value, MemoryError)


@validated
def test_binding_larger_than_a_shader_sees() -> None:
    device = Device()
    most = device.info["limits"]["max_storage_buffer_range"]
    if most + 4 > min(1 << 30, device.info["limits"]["max_allocation_bytes"]):
        pytest.skip("too large to allocate in a test")
    buffer = device.buffer(most + 4)
    pipeline = device.pipeline(spirv("constants"), 1)
    plan = device.plan()
    with pytest.raises(errors.OutOfDeviceMemoryError, match="bind a part of it"):
        plan.dispatch(pipeline, [buffer], (1, 1, 1))
    plan.dispatch(pipeline, [(buffer, 0, most)], (1, 1, 1))


def test_out_of_memory() -> None:
    code = """
import resource, vkgrad.errors as e
from tests.runtime.test_native_errors import assert_works
device = Device(); assert_works(device)
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), -1))
kept = []
try:
    while True: kept.append(device.buffer(128 << 20))
except e.OutOfDeviceMemoryError as error: print(error)
kept.clear(); assert_works(device); print("works", device.counters["blocks"])
"""
    if _native.list_devices()[0]["type"] != "cpu":
        pytest.skip("only the memory of a device on the CPU can be limited")
    child = run_child(code)
    words = "vkAllocateMemory returned VK_ERROR_OUT_OF_"
    assert words in child.stdout and "use a smaller batch" in child.stdout and "works 1" in child.stdout, child.stderr


# shaders


@validated
def test_bad_spirv(device: Device) -> None:
    good = spirv("reverse_add")  # its last instruction is OpFunctionEnd, of one word
    swapped = b"".join(good[i : i + 4][::-1] for i in range(0, len(good), 4))
    cases = {
        "less than a header": b"",
        "no whole number of words": good[:-3],
        "is this GLSL text": b"#version 450\nvoid main() {}\n",
        "byte order is swapped": swapped,
        "functions are not closed": good[:-4],
        "truncated or damaged at word 5": good[:24],
        "truncated or damaged at word": good[:20] + bytes(4) + good[24:],
        "no GLCompute entry point named main": good.replace(b"main\0\0\0\0", b"niam\0\0\0\0"),
    }
    for words, code in cases.items():
        with pytest.raises(errors.ShaderError, match="bad SPIR-V: .*" + words) as raised:
            device.pipeline(code, 2)
        assert isinstance(raised.value, ValueError)
    with pytest.raises(errors.ShaderError):
        _native.inspect_spirv(b"no")


@validated
def test_shaders_a_device_cannot_run(device: Device) -> None:
    subgroup_sizes = device.info["subgroup_size_range"]
    local_size = struct.pack("4I", 17, 256, 1, 1)  # operands of OpExecutionMode
    too_large = spirv("sum").replace(local_size, struct.pack("4I", 17, 1 << 20, 1, 1))
    too_many = spirv("sum").replace(local_size, struct.pack("4I", 17, 256, 256, 1))
    cases: list[tuple[str, Callable[[], object]]] = [
        ("the shader uses binding 1, but n_buffers is 1", lambda: device.pipeline(spirv("reverse_add"), 1)),
        ("has no effect", lambda: device.pipeline(spirv("reverse_add"), 0)),
        ("split the kernel", lambda: device.pipeline(spirv("sum"), device.info["limits"]["max_storage_buffers"] + 1)),
        ("local size of 1048576 is over the limit", lambda: device.pipeline(too_large, 3)),
        ("65536 invocations a workgroup are over the limit", lambda: device.pipeline(too_many, 3)),
        ("is not offered", lambda: device.pipeline(spirv("sum"), 3, subgroup_size=subgroup_sizes[1] * 2)),
        ("is not offered", lambda: device.pipeline(spirv("sum"), 3, subgroup_size=3)),
    ]
    if not device.info["features"]["cooperativeMatrix"]:
        needs_matrices = spirv("sum")[:20] + struct.pack("II", 2 << 16 | 17, 6022) + spirv("sum")[20:]
        cases.append(("needs cooperativeMatrix", lambda: device.pipeline(needs_matrices, 3)))
    for words, ask in cases:
        with pytest.raises(errors.ShaderError, match=words):
            ask()
    assert device.counters["pipelines_created"] == 0


def test_inspection_agrees_with_the_source() -> None:
    shape = _native.inspect_spirv(spirv("root64"))
    assert shape["bindings"] == 2 and shape["local_size"] == (256, 1, 1)
    assert set(shape["capabilities"]) == {1, 10}  # Shader, Float64


# lost, closed, forked


@validated
def test_lost_device() -> None:
    device = Device()
    plan, _ = reversals(device, device.buffer(4096), 2)
    ticket = device.submit(plan)
    device._simulate_device_lost()
    with pytest.raises(errors.DeviceLostError, match="open a new Device"):
        device.submit(plan)
    asks: list[Callable[[], object]] = [
        lambda: device.submit(plan),
        lambda: device.wait(ticket),
        lambda: device.buffer(4),
        device.plan,
    ]
    for ask in asks:
        with pytest.raises(errors.DeviceLostError, match="lost earlier"):
            ask()
    device.close()
    assert_works(Device())


@validated
def test_closed_device() -> None:
    device = Device()
    buffer, plan = device.buffer(64, "upload"), device.plan()
    plan.fill(buffer, 1)
    ticket = device.submit(plan.finish())
    device.close()
    device.close()
    asks: list[Callable[[], object]] = [
        lambda: device.buffer(4),
        device.plan,
        lambda: device.submit(plan),
        lambda: device.done(ticket),
        lambda: device.pipeline(spirv("sum"), 3),
        lambda: buffer.write(b"abcd"),
        buffer.read,
        lambda: device.save_cache("unwritten"),
    ]
    for ask in asks:
        with pytest.raises(errors.DeviceClosedError, match="open a new Device"):
            ask()
    with pytest.raises(BufferError):
        memoryview(buffer)


def test_forked_process() -> None:
    code = """
import vkgrad.errors as e
from tests.runtime.test_native_errors import assert_works
device = Device(); buffer = device.buffer(4096)
plan, _ = reversals(device, buffer, 200); ticket = device.submit(plan)
child = os.fork()
if child == 0:
    assert _native.forks() == 1
    asks = [lambda: device.buffer(4), lambda: device.submit(plan), lambda: device.wait(ticket), device.plan, Device]
    for ask in asks:
        try: ask()
        except e.ForkedError as error: assert "spawn" in str(error)
        else: os._exit(3)
    del device, buffer, plan, ask, asks
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert _native.forks() == 0
device.wait(ticket); assert_works(device); print("parent works")
"""
    child = run_child(code)
    assert (child.returncode, child.stdout, child.stderr) == (0, "parent works\n", ""), child.stderr
    code = """
from tests.runtime.test_native_errors import assert_works
if os.fork() == 0:
    assert _native.forks() == 1
    assert_works(Device())
    sys.exit(0)
status = os.wait()[1]
assert_works(Device()); sys.exit(os.waitstatus_to_exitcode(status))
"""
    child = run_child(code)  # forked before the first use: both may use Vulkan
    assert (child.returncode, child.stderr) == (0, ""), child.stderr


# a caller's mistakes


@validated
def test_mistakes_in_a_plan(device: Device) -> None:
    reverse = device.pipeline(spirv("reverse_add"), 2)
    b, host, other = device.buffer(1024), device.buffer(64, "upload"), Device()
    alien = other.buffer(1024)
    plan = device.plan()
    one = (1, 1, 1)
    alignment = device.info["limits"]["storage_buffer_alignment"]
    cases: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (ValueError, "takes 2 buffers, given 1", lambda: plan.dispatch(reverse, [b], one)),
        (ValueError, "workgroups on axis 1", lambda: plan.dispatch(reverse, [b, b], (1, 0, 1))),
        (ValueError, "push constants", lambda: plan.dispatch(reverse, [b, b], one, bytes(4096))),
        (ValueError, "push constants", lambda: plan.dispatch(reverse, [b, b], one, bytes(3))),
        (ValueError, "the pipeline belongs to", lambda: other.plan().dispatch(reverse, [alien, alien], one)),
        (ValueError, "buffer 1 belongs to another device", lambda: plan.dispatch(reverse, [b, alien], one)),
        (IndexError, "buffer 1: bytes 1000 to 1100", lambda: plan.dispatch(reverse, [b, (b, 1000, 100)], one)),
        (IndexError, "buffer 0", lambda: plan.dispatch(reverse, [(b, 2**63, 2**63), b], one)),
        (ValueError, "has no bytes", lambda: plan.dispatch(reverse, [(b, 0, 0), b], one)),
        (TypeError, "Buffer, offset, nbytes", lambda: plan.dispatch(reverse, [b, None], one)),  # type: ignore[list-item]
        (ValueError, "none of compute, full, host", lambda: plan.barrier("all")),  # type: ignore[arg-type]
        (IndexError, "copy: source", lambda: plan.copy(b, host, 128)),
        (IndexError, "copy: destination", lambda: plan.copy(host, b, 128)),
        (ValueError, "overlap", lambda: plan.copy(b, b, 512, 256, 0)),
        (ValueError, "at least 1", lambda: plan.copy(b, host, 0)),
        (ValueError, "another device", lambda: plan.copy(alien, host, 4)),
        (ValueError, "multiples of 4", lambda: plan.fill(b, 0, 0, 3)),
        (IndexError, "fill", lambda: plan.fill(b, 0, 2048)),
        (ValueError, "timestamps=n", plan.timestamp),
        (ValueError, "not finished", lambda: device.submit(plan)),
        (ValueError, "no plan", lambda: device.submit([])),
        (ValueError, "another device", lambda: other.submit(plan.finish())),
        (ValueError, "is finished", lambda: plan.barrier()),
        (ValueError, "more often than it has copies", lambda: device.submit([plan] * 4)),
        (ValueError, "submit the plan first", device.plan(timestamps=1).timestamps),
        (ValueError, "never given out", lambda: device.wait(99)),
        (ValueError, "copies must be at least 1", lambda: device.plan(0)),
        (ValueError, "nbytes must be at least 1", lambda: device.buffer(0)),
        (ValueError, "none of device, upload", lambda: device.buffer(4, "gpu")),  # type: ignore[arg-type]
        (IndexError, "write", lambda: host.write(bytes(65))),
        (IndexError, "read", lambda: host.read(65)),
        (BufferError, "copy through an upload", lambda: b.read()),
        (BufferError, "the host cannot see|Error getting buffer", lambda: memoryview(b)),
        (ValueError, "4 or 8", lambda: device.pipeline(spirv("constants"), 1, {3: b"x"})),
        (errors.VulkanError, "folder exists", lambda: device.save_cache(os.path.join("absent", "folder", "file"))),
    ]
    if alignment > 1:
        odd = (b, alignment + 1, 4)
        cases.append((ValueError, "alignment", lambda: device.plan().dispatch(reverse, [odd, b], one)))
    for kind, words, ask in cases:
        with pytest.raises(kind, match=words):
            ask()
    plan.finish()
    assert device.counters["dispatches_recorded"] == 0 == device.counters["submissions"]
