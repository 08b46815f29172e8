"""vkgrad: a small deep-learning framework that trains through Vulkan."""

from vkgrad import functions, indexing, random, tree, updates
from vkgrad.functional import (
    custom_vjp,
    grad,
    hessian,
    hvp,
    jacobian,
    jvp,
    linearize,
    stop_gradient,
    value_and_grad,
    vjp,
)
from vkgrad.functions import *  # noqa: F403
from vkgrad.history import no_grad
from vkgrad.ir.dtypes import bool_, float32, float64, int32, uint32
from vkgrad.random import manual_seed
from vkgrad.tensor import Tensor, asarray, tensor
