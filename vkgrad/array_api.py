"""What a namespace of the array API standard says of itself: its version, its devices, its element types, constants.

The functions of the standard are those of `vkgrad`; `docs/array_api.md` lists them one by one. This module must not
know how any of them is computed.

Source: Python array API standard, version 2024.12.
"""

from __future__ import annotations

import math
from typing import Any

from vkgrad.errors import OptionError
from vkgrad.execution import default_device, devices
from vkgrad.functions.types import KINDS
from vkgrad.ir.dtypes import DTYPES, DType, float32, int32
from vkgrad.placement import found
from vkgrad.tensor import ARRAY_API_VERSIONS

__all__ = ["__array_api_version__", "__array_namespace_info__", "e", "inf", "nan", "newaxis", "pi"]

__array_api_version__ = ARRAY_API_VERSIONS[-1]

e, pi, inf, nan = math.e, math.pi, math.inf, math.nan
newaxis = None


BEYOND = ("float16", "bfloat16")  # types that the standard does not have


class Info:
    """What `__array_namespace_info__` gives; the names are the standard's."""

    def capabilities(self) -> dict[str, Any]:
        """Masks may index, and sizes may depend on values: both read the device. There is no limit to axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> Any:
        return default_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType | None]:
        """What numbers become; there are no complex ones."""
        del device  # it is the same everywhere
        return {"real floating": float32, "complex floating": None, "integral": int32, "indexing": int32}

    def devices(self) -> list[str]:
        """Names that `device=` takes."""
        return devices()

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, DType]:
        """The standard's element types that a device computes with, by name; those of one kind, or of some.

        Raises: `OptionError` for an unknown kind.
        """
        asked = tuple(KINDS) if kind is None else (kind,) if isinstance(kind, str) else kind
        if unknown := [one for one in asked if one not in KINDS]:
            raise OptionError(f"dtypes: no kind {unknown[0]!r}; there are {', '.join(KINDS)}")
        letters = "".join(KINDS[one] for one in asked)
        lacks = found(device).lacks
        return {
            name: dtype
            for name, dtype in DTYPES.items()
            if dtype.kind in letters and name not in BEYOND and not lacks(dtype)
        }


def __array_namespace_info__() -> Info:
    """What this namespace can do, by the array API standard.

    Example:
        >>> import vkgrad as vg
        >>> vg.__array_namespace_info__().dtypes(kind="bool")
        {'bool': vkgrad.bool}
    """
    return Info()
