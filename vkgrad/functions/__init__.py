"""Everything that can be said of tensors with the primitives of `vkgrad.ops`.

A derived function is written once, in the file of its kind, and gets its gradients and its fusion from the primitives.
"""

from vkgrad.functions import convolution, creation, elementwise, joining, linear, lookup, reductions, shapes
from vkgrad.functions.convolution import *  # noqa: F403
from vkgrad.functions.creation import *  # noqa: F403
from vkgrad.functions.elementwise import *  # noqa: F403
from vkgrad.functions.joining import *  # noqa: F403
from vkgrad.functions.linear import *  # noqa: F403
from vkgrad.functions.lookup import *  # noqa: F403
from vkgrad.functions.reductions import *  # noqa: F403
from vkgrad.functions.shapes import *  # noqa: F403

__all__ = [
    *convolution.__all__,
    *creation.__all__,
    *elementwise.__all__,
    *joining.__all__,
    *linear.__all__,
    *lookup.__all__,
    *reductions.__all__,
    *shapes.__all__,
]
