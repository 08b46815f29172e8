"""One thread per call of BLAS while lanes are at work, which are threads enough.

BLAS's own threads wait for each other without sleeping: with other programs on the machine's cores, a step then takes
several times as long. This module must not know what is computed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from vkgrad.runtime import _native

# OpenBLAS by the names it has in NumPy's wheels and in distributions.
NAMES = (
    "scipy_openblas{}_num_threads64_",
    "scipy_openblas{}_num_threads",
    "openblas{}_num_threads64_",
    "openblas{}_num_threads",
)


def _functions() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """How the BLAS that NumPy has loaded tells and takes its number of threads; None if it is none of these."""
    core = getattr(np, "_core", None) or np.core
    library = ctypes.CDLL(core._multiarray_umath.__file__)  # finds what it is linked with, too
    for name in NAMES:
        if hasattr(library, name.format("_set")):
            return getattr(library, name.format("_get")), getattr(library, name.format("_set"))
    return None


def _gemm() -> int:
    """Where that BLAS has its product of float32 matrices with 64-bit sizes; 0 if it is another BLAS."""
    core = getattr(np, "_core", None) or np.core
    library = ctypes.CDLL(core._multiarray_umath.__file__)
    for name in ("scipy_cblas_sgemm64_", "cblas_sgemm64_"):
        if hasattr(library, name):
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    return 0


GEMM = _gemm()


def multiply(left: np.ndarray, right: np.ndarray, out: np.ndarray, threads: int) -> None:
    """out = left @ right, by `threads` threads of this package where that can be, each with BLAS to itself."""
    alike = left.dtype == right.dtype == out.dtype == np.float32
    if not (GEMM and alike and _native.multiply(GEMM, left, right, out, threads)):
        np.matmul(left, right, out)


class OneThread:
    """A context in which BLAS uses the calling thread alone. Another BLAS than OpenBLAS stays as it is."""

    functions = _functions()

    def __enter__(self) -> None:
        if self.functions is not None:
            self.before = self.functions[0]()
            self.functions[1](1)

    def __exit__(self, *_: object) -> None:
        if self.functions is not None:
            self.functions[1](self.before)
