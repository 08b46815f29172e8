"""What rows assume of a large GPU where sizes must decide between them."""

from __future__ import annotations

import math

from vkgrad.codegen.rows.products import mnk
from vkgrad.codegen.rows.row import Limits
from vkgrad.schedule.kernel import Kernel

# What estimates assume of a large GPU, as fitted to an H200: its processors, what a dispatch costs in any case, and
# how many instructions of 32 lanes each they start in a microsecond.
PROCESSORS = 132
DISPATCH_US = 4.0
STARTS_PER_US = PROCESSORS * 4 * 1900
WORDS_PER_US = 1_050_000  # from memory


def reading_us(kernel: Kernel) -> float:
    """How long the larger operand takes to be read once."""
    b, m, n, k = mnk(kernel)
    return b * max(m, n) * k / WORDS_PER_US


def last_for_products(kernel: Kernel, limits: Limits) -> float:
    """The estimate of loop nests: a product is never theirs where a row for products applies."""
    return math.inf if kernel.product else 0.0
