"""The vocabulary: one complete record per primitive, one file per family.

Importing this package registers every primitive. To add one, write its record in the file of its family; tests, docs
and placement follow from the record.
"""

from vkgrad.ops import (
    arithmetic,
    contraction,
    factorisations,
    fourier,
    indexed,
    logic,
    random_bits,
    recurrences,
    reductions,
    scans,
    sorting,
    sources,
    transcendental,
    views,
)

__all__ = [
    "arithmetic", "contraction", "factorisations", "fourier", "indexed", "logic", "random_bits", "recurrences",
    "reductions", "scans", "sorting", "sources", "transcendental", "views",
]  # fmt: skip
