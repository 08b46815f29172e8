"""Whether a device's own conversions of half precision are right to the last bit.

GLSL promises neither that `packHalf2x16` rounds to the nearest nor that subnormal numbers survive, and Vulkan lets
drivers differ. So a device is asked: every half is read, and every half, every point midway between two and the floats
next to it are written, and compared with the same in integers. Integers take ten times the instructions, which makes
kernels that only move halves wait for arithmetic. The answer is kept on disk, for a device and driver.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import numpy as np

from vkgrad.codegen.cache import DiskCache, spirv
from vkgrad.codegen.render import used_functions
from vkgrad.config import config

_MAIN = """
void write(float x) {
    uint wanted = to_float16(x), bits = packHalf2x16(vec2(x, x));
    if (bits != (wanted | wanted << 16)) atomicAdd(wrong[0], 1u);
}
void main() {
    uint half_bits = gl_GlobalInvocationID.x, magnitude = half_bits & 0x7fffu;
    vec2 own = unpackHalf2x16(half_bits | half_bits << 16);
    float x = from_float16(half_bits);
    if (magnitude > 0x7c00u) {  // what a NaN carries does not matter, but it must stay one
        uvec2 bits = floatBitsToUint(own) & 0x7fffffffu;
        uint again = packHalf2x16(vec2(x, x)) & 0x7fff7fffu;
        if (min(bits.x, bits.y) <= 0x7f800000u || (again & 0x7fffu) <= 0x7c00u || again >> 16 <= 0x7c00u)
            atomicAdd(wrong[0], 1u);
        return;
    }
    if (floatBitsToUint(own) != uvec2(floatBitsToUint(x))) atomicAdd(wrong[0], 1u);
    write(x);
    if (magnitude == 0x7c00u) return;
    float above = magnitude == 0x7bffu ? (x < 0 ? -65536.0 : 65536.0) : from_float16(half_bits + 1);
    float midway = x * 0.5 + above * 0.5;
    write(midway);
    write(uintBitsToFloat(floatBitsToUint(midway) - 1u));
    write(uintBitsToFloat(floatBitsToUint(midway) + 1u));
}
"""
GROUP = 64


def source() -> str:
    """The shader that asks; it counts what is wrong."""
    head = f"#version 450\nlayout(local_size_x = {GROUP}) in;\nlayout(binding = 0) buffer Wrong {{ uint wrong[]; }};"
    return "\n".join((head, *used_functions(_MAIN), _MAIN))


def are_exact(native: Any, device: str) -> bool:
    """Whether the conversions of `device`, named with its driver, are exact: looked up, or asked for once."""
    text = source()
    disk, key = DiskCache(config.cache_dir / "halves"), hashlib.sha256(f"{device}\n{text}".encode()).hexdigest()
    known = disk.load(key)
    if known is None:
        known = struct.pack("<I", wrong_count(native, text))
        disk.store(key, known)
    return known == bytes(4)


def wrong_count(native: Any, text: str) -> int:
    """How many conversions are wrong by the shader `text`."""
    pipeline = native.pipeline(spirv(text, "halves"), 1, {})
    count = native.buffer(4, "download")
    count.write(np.zeros(1, np.uint32))
    plan = native.plan()
    plan.dispatch(pipeline, [count], ((1 << 16) // GROUP, 1, 1))
    plan.barrier("host")
    native.wait(native.submit(plan.finish()))
    return int(np.frombuffer(count.read(), np.uint32)[0])
