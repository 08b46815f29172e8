"""The table of ways to compute a kernel: each row names a template, when it applies, and its parameters.

Of the rows that apply, the one with the least estimated time is taken; of equals the first, so faster rows come first,
and the last row always applies. A row's choice, and every parameter that decides the order of a sum, depends only on
sizes and on the device, never on what else was fused in: the same sum has the same bits in whichever kernel it is
computed. (Layouts may decide which invocation loads what.)
"""

from __future__ import annotations

from vkgrad.codegen.rows.convolutions import taps_row, winograd_row, winograd_weights_row
from vkgrad.codegen.rows.loops import lanes_row, serial_row, shared_nest_row, strips_row, tiles_row
from vkgrad.codegen.rows.row import Limits, Row, ceil
from vkgrad.codegen.rows.staged import cooperative_row, shared_row, vector_row
from vkgrad.codegen.rows.tiled import tiled_row
from vkgrad.schedule.kernel import Kernel

__all__ = ["ORDERING", "ROWS", "Limits", "Row", "choose", "dispatch_size", "rows_for"]

# The parameters that decide the order of a sum; two ways of one template that agree in these have the same bits.
ORDERING = ("lanes", "lanes_k", "slices", "edge")  # of which `edge` says how products are transformed

ROWS: tuple[Row, ...] = (
    cooperative_row(
        *("contract_cooperative_128x128", 128, 128, 64, 64, 32, 1, 230.0),
        "products of half-precision numbers where subgroups multiply matrices. H200: 250 TFLOP/s at 8192 cubed, and 31 "
        "by tiles of single precision",
    ),
    cooperative_row(
        *("contract_cooperative_64x64", 64, 64, 64, 32, 32, 2, 120.0),
        "the same where larger tiles are few. H200, 1024 cubed: 25 us, and 29 by the row above",
    ),
    vector_row(
        *("contract_vector", 256, 64, 2, 4),
        "a matrix times one or two vectors: each element is read once. H200, 4096x4096 times one: 18.9 us, and 39 by "
        "register tiles; from the left 19.7, and 73",
        few=2,
    ),
    vector_row(
        *("contract_vectors", 256, 32, 4, 2),
        "a matrix times a few vectors. H200, 8x4096x4096: 24.4 us, and 55 by register tiles",
    ),
    shared_row(
        *("contract_shared_128x256", 128, 256, 16, 8, 8, 1, 46.5),
        "products that fill a GPU with such tiles: sixteen warps a processor, and fewer loads than 128x128. H200: 45.6 "
        "TFLOP/s at 4096 cubed",
        padded=False,
    ),
    shared_row(
        *("contract_shared_128x128x32", 128, 128, 32, 8, 8, 1, 45.2),
        "finer rounds; one deep stage takes 0.98 of the time that two shallow ones take. H200: 45.1 TFLOP/s at 4096 "
        "cubed",
        stages=1,
        padded=False,
    ),
    shared_row(
        *("contract_shared_128x128", 128, 128, 8, 8, 8, 1, 40.0),
        "short sums. H200, 4096x4096x32: 38 us, and 43 by the rows above",
    ),
    shared_row(
        *("contract_shared_256x64", 256, 64, 8, 8, 8, 1, 38.5),
        "convolutions of 64 channels. H200, 3x3 at 56x56: 288 us, its gradient of the data 343; 307 and 460 by 64x64",
    ),
    shared_row(
        *("contract_shared_128x64", 128, 64, 16, 8, 4, 1, 39.3),
        "between the rows around it. H200: 39.5 TFLOP/s at 4096 cubed",
    ),
    shared_row(
        *("contract_shared_64x64", 64, 64, 16, 8, 4, 1, 39.5),
        "products of a thousand rows and columns. H200, 1024 cubed: 57 us, 65.9 by 4x4 outputs an invocation, and 99 "
        "by 128x128",
    ),
    shared_row(
        *("contract_shared_64x64x32", 64, 64, 32, 8, 4, 2, 37.0),
        "tiles with so much to sum that a processor gets one or two. H200, 256x256x16384 in parts: 64 us, and 69 by "
        "the row above",
    ),
    shared_row(
        *("contract_shared_32x64", 32, 64, 32, 4, 4, 2, 31.4),
        "layers of a perceptron, of which 64x64 makes too few tiles. H200: 31.4 TFLOP/s at 2048 cubed",
    ),
    shared_row(
        *("contract_shared_32x32", 32, 32, 32, 4, 4, 4, 24.5),
        "the same for smaller batches. H200, 256x400x120: 5.2 us, and 8.3 by register tiles",
    ),
    shared_row(
        *("contract_shared_128x16", 128, 16, 16, 4, 4, 1, 15.0),
        "convolutions with few channels: an address in the image is worked out once for 16 channels. H200, the second "
        "of LeNet at batch 256: 14.1 us, and 23.6 by register tiles",
    ),
    shared_row(
        *("contract_shared_64x16", 64, 16, 32, 4, 4, 4, 18.5),
        "few columns. H200, 8192x16x1024: 22 us, and 41 by the row above",
    ),
    shared_row(
        *("contract_shared_16x64", 16, 64, 32, 4, 4, 4, 25.0),
        "few rows. H200, 16x8192x1024: 15.9 us, and 20.2 by 32x64",
    ),
    winograd_row(
        *("contract_winograd_32x32", 32, 32, 4),
        "convolutions of 3x3 taps in 16 products for 36, rounded otherwise (docs/numerics.md). H200, 3x3 from 128 "
        "channels to 128 at 28x28: 166 us, and 275 by 64x64; blocks of more channels or 4x4 results are slower",
    ),
    winograd_weights_row(
        *("contract_winograd_weights_32x16", 32, 16, 4),
        "their gradients of the weights, in 36 products for 144, rounded otherwise. H200, 512 channels at 7x7: 220 us, "
        "and 333 by 64x64; eight parts of 128 at 28x28: 213 us, and 414 by 128x128",
    ),
    taps_row(
        *("contract_taps_64x128", 64, 128, 8, 8, 8, 36.0),
        "other convolutions, a test for padding a tap. H200, 3x3 of stride 2 from 64 channels to 128 at 56x56: 112 us, "
        "and 150 by 128x128 of the rows above; 1x1: 18 us, and 27",
    ),
    taps_row(
        *("contract_taps_64x64", 64, 64, 16, 8, 4, 35.0),
        "the same where 64x128 makes too few tiles. H200, 3x3 of stride 2 from 256 channels to 512 at 14x14: 164 us, "
        "and 177 by 64x128",
    ),
    tiled_row(
        "contract_tiled",
        "register tiles without staging. lavapipe, a LeNet step at batch 64: these tiles take 0.35 of the time that "
        "8x8 with lanes along M take, and 0.7 of the time to compile; two steps of K a trip are 1.2 to 1.7 times "
        "as fast as one, handing the common operand around 1.15, lanes along K for gradients of few weights 3 to "
        "10. H200: 32,768 invocations hide latency; one loop an axis instead of divisions takes half the time (LeNet's "
        "convolutions at batch 2048: 84 to 40 us, 133 to 63), tiles of 4x8 for 4x4 0.7 to 0.8",
    ),
    tiles_row("nest_tiles", "large element-wise kernels with a transposed operand, which is turned in shared memory"),
    strips_row(
        "nest_strips", "large element-wise kernels: elements come and go in fours, several of them under way at once"
    ),
    lanes_row("nest_lanes", "large reductions: fours, and what is reduced twice is read once"),
    serial_row(
        "nest_serial",
        "one invocation per place: element-wise kernels and short reductions. lavapipe: workgroups of 64 take 0.7 of "
        "the time that 16 take, if there are enough for all cores. GPUs (assumed): 32 terms are worth a subgroup",
    ),
    shared_nest_row(
        "nest_shared",
        "one workgroup per place, its lanes sharing the terms; always applies. GPUs (assumed): 32 to 256 lanes, of "
        "four terms each if there are so many, 1,024 where places are few",
    ),
)


def rows_for(kernel: Kernel, limits: Limits) -> list[Row]:
    """Every row that applies, in the order in which they are preferred."""
    return sorted((row for row in ROWS if row.applies(kernel, limits)), key=lambda row: row.estimate_us(kernel, limits))


def choose(kernel: Kernel, limits: Limits) -> Row:
    return rows_for(kernel, limits)[0]


def dispatch_size(groups: int, limits: Limits) -> tuple[int, int, int]:
    """A 2-D grid of at least `groups` workgroups within the device's limits."""
    width = min(groups, limits.max_groups[0])
    return width, ceil(groups, width), 1
