"""One thread per call of BLAS while lanes are at work, which are threads enough.

BLAS's own threads wait for each other without sleeping: with other programs on the machine's cores, a step then takes
several times as long. This module must not know what is computed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

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
