"""What the tests of ops derive from the records: which types each takes, with which attributes."""

from __future__ import annotations

from typing import Any

from vkgrad import ops  # noqa: F401  fills OPS
from vkgrad.errors import DTypeError
from vkgrad.ir.dtypes import DType
from vkgrad.ir.op import OPS, Family, Op

ELEMENTWISE = [op for op in OPS.values() if op.family is Family.ELEMENTWISE]
ATTRIBUTES: dict[str, list[dict[str, Any]]] = {
    op.name: [dict(case.attributes) for case in op.samples.cases if not any(case.shapes)] for op in ELEMENTWISE
}


def operand_dtypes(op: Op, dtype: DType) -> list[DType]:
    return op.samples.dtypes(op.arity, dtype)


def takes(op: Op, dtype: DType) -> bool:
    try:
        op.dtype(operand_dtypes(op, dtype), **ATTRIBUTES.get(op.name, [{}])[0])
    except DTypeError:
        return False
    return True


# Whole numbers where something happens: shifts of 32, overflow, the ends of the range.
INTEGERS = {
    "int32": (0, 1, -1, 2, -3, 7, -8, 31, 32, 33, -33, 46341, 2**31 - 1, -(2**31), -(2**31) + 1),
    "uint32": (0, 1, 2, 3, 7, 31, 32, 33, 65536, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1),
    "int8": (0, 1, -1, 2, -3, 7, -8, 11, 127, -128, -127),
    "uint8": (0, 1, 2, 3, 7, 8, 16, 127, 128, 254, 255),
    "int16": (0, 1, -1, 2, -3, 15, 16, -16, 181, 2**15 - 1, -(2**15)),
    "uint16": (0, 1, 2, 3, 15, 16, 256, 2**15, 2**16 - 2, 2**16 - 1),
    "int64": (0, 1, -1, 2, -3, 31, 32, 63, 64, -65, 2**32, -(2**32) - 1, 3037000500, 2**63 - 1, -(2**63), -(2**63) + 1),
    "uint64": (0, 1, 2, 3, 32, 63, 64, 2**32 - 1, 2**32, 2**63, 2**64 - 2, 2**64 - 1),
    "bool": (False, True),
}
