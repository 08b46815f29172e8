"""All parameters in one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vkgrad import functions as f
from vkgrad.errors import ShapeError
from vkgrad.history import no_grad
from vkgrad.tensor import Tensor, asarray


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The elements of all parameters, one parameter after the other: (N,)."""
    return f.concat([f.reshape(p, (-1,)) for p in parameters])


def vector_to_parameters(vec: Any, parameters: Iterable[Tensor]) -> None:
    """Give the parameters, in place, the elements that `parameters_to_vector` would take from them.

    Raises:
        ShapeError: the vector has more or fewer.
    """
    vec, listed = asarray(vec), list(parameters)
    count = sum(p.size for p in listed)
    if vec.shape != (count,):
        raise ShapeError(
            f"vector_to_parameters: the parameters have {count} elements, the vector has shape {vec.shape}"
        )
    first = 0
    with no_grad():
        for p in listed:
            p.assign(f.reshape(vec[first : first + p.size], p.shape).astype(p.dtype))
            first += p.size
