"""From the kernel of a routine to a `Shader`: the template that the op's record names, with what it may ask for.

A template sees the operands as `inputs` and its result as `output` (buffers, see `Array`), its sizes as `number.NAME`
(specialisation constants), its parameters by name, and `group`, the number of its workgroup. It holds everything else
itself: loops, shared memory and the layout of its workgroup. This module must not know what any routine computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vkgrad.codegen.elements import Packing, read, store, stored_type
from vkgrad.codegen.expressions import Numbers, literal
from vkgrad.codegen.rows import Limits
from vkgrad.errors import UnsupportedError
from vkgrad.ir.dtypes import DType
from vkgrad.ir.op import Geometry
from vkgrad.schedule.kernel import Call, Kernel, Load


@dataclass(frozen=True)
class Array:
    """An operand or the result as a template sees it: `{{ inputs[0].name }}[i]` is a stored element.

    `type` is what elements are in an expression, `stored` what they are in memory: these differ for bool and for types
    that are only stored, such as float16, which `at` and `put` convert.
    """

    name: str
    dtype: DType
    packing: Packing = frozenset()

    @property
    def type(self) -> str:
        return self.dtype.glsl

    @property
    def stored(self) -> str:
        return stored_type(self.dtype, self.packing)

    def at(self, address: str) -> str:
        """The element at `address`, as an expression."""
        return read(self.name, self.dtype, address, self.packing)

    def put(self, address: str, value: str) -> str:
        """The statement that stores `value`."""
        return store(self.name, self.dtype, address, f"({value})", self.packing)

    def literal(self, value: float | int | bool) -> str:
        """`value` as GLSL of this element type."""
        return literal(value, self.dtype)


class Names:
    """`number.rows` in a template is the specialisation constant for what the geometry calls `rows`."""

    def __init__(self, numbers: Numbers, values: dict[str, int]) -> None:
        self._numbers, self._values = numbers, values

    def __getattr__(self, name: str) -> str:
        if name not in self._values:
            raise AttributeError(name)  # which Jinja reports as undefined
        return self._numbers.name((name,), self._values[name])


def geometry(kernel: Kernel, call: Call, limits: Limits) -> Geometry:
    """How the routine of `kernel` is dispatched.

    Raises: `UnsupportedError` where it needs more shared memory or invocations than there are.
    """
    assert call.op.geometry is not None
    dtypes = [kernel.code[index].dtype for index in call.operands]
    found = call.op.geometry(call.shapes, dtypes, limits, **dict(call.attributes))
    if found.shared_bytes > limits.shared_bytes:
        raise UnsupportedError(
            f"{call.op.name}: a workgroup needs {found.shared_bytes:,} bytes of shared memory, and this device has "
            f"{limits.shared_bytes:,}; its geometry must take smaller tiles there"
        )
    return found


def variables(
    kernel: Kernel, call: Call, found: Geometry, numbers: Numbers, width: int, packing: Packing = frozenset()
) -> dict[str, Any]:
    """What the template sees. `width` is that of the grid, whose rows of workgroups follow each other."""
    loads = [kernel.code[index] for index in call.operands]
    columns = numbers.name(("width of the grid",), width)
    return {
        "inputs": [Array(f"b{load.slot}", load.dtype, packing) for load in loads if isinstance(load, Load)],
        "output": Array(f"b{kernel.stores[0].slot}", call.dtype, packing),
        "number": Names(numbers, dict(found.numbers)),
        "group": f"int(gl_WorkGroupID.y * {columns} + gl_WorkGroupID.x)",
        **found.parameters,
    }
