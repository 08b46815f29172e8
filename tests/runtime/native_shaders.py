"""The few shaders with which the native runtime is tested, compiled when asked for."""

from __future__ import annotations

import functools

from vkgrad.codegen import glslang

_HEAD = "#version 450\nlayout(local_size_x = 256) in;\n"
_SHADERS = {
    # Reversing makes each value depend on another invocation's: a missing barrier is a race, not a coincidence.
    "reverse_add": _HEAD
    + """
        layout(set = 0, binding = 0) readonly buffer X { float x[]; };
        layout(set = 0, binding = 1) writeonly buffer Y { float y[]; };
        layout(push_constant) uniform P { uint n; float step; };
        void main() { uint i = gl_GlobalInvocationID.x; if (i < n) y[n - 1 - i] = x[i] + step; }
    """,
    "sum": _HEAD
    + """
        layout(set = 0, binding = 0) readonly buffer A { float a[]; };
        layout(set = 0, binding = 1) readonly buffer B { float b[]; };
        layout(set = 0, binding = 2) writeonly buffer Y { float y[]; };
        void main() { uint i = gl_GlobalInvocationID.x; if (i < y.length()) y[i] = a[i] + b[i]; }
    """,
    "constants": _HEAD
    + """
        layout(constant_id = 3) const uint scale = 1;
        layout(constant_id = 7) const float shift = 0.0;
        layout(set = 0, binding = 0) buffer Y { float y[]; };
        void main() { uint i = gl_GlobalInvocationID.x; if (i < y.length()) y[i] = y[i] * scale + shift; }
    """,
    "root64": _HEAD
    + """
        layout(set = 0, binding = 0) readonly buffer X { double x[]; };
        layout(set = 0, binding = 1) writeonly buffer Y { double y[]; };
        void main() { uint i = gl_GlobalInvocationID.x; if (i < y.length()) y[i] = sqrt(x[i]) + 1.0000000001lf; }
    """,
}


@functools.cache
def spirv(name: str) -> bytes:
    return glslang.to_spirv(_SHADERS[name], glslang.Target.VULKAN_1_1)
