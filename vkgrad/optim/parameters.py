"""Which tensors an optimiser changes, and which gradient belongs to which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from vkgrad import tree
from vkgrad.errors import OptionError, ShapeError
from vkgrad.tensor import Tensor


def named_parameters(params: Any) -> dict[str, Tensor]:
    """The tensors of a module or of any nesting, each once, by their place in it."""
    found: dict[str, Tensor] = {}
    for place, value in _places(tree.leaves(_listed(params))).items():
        if not isinstance(value, Tensor):
            raise OptionError(f"an optimiser changes tensors; {place} is a {type(value).__name__}")
        if all(value is not other for other in found.values()):
            found[place] = value
    return found


def with_gradients(params: Any, grads: Any) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield each parameter of `params` with its gradient in `grads`, which has the same nesting.

    A list goes with a tuple, and a module with a dict of the names of its parameters.

    Raises:
        ShapeError: the nestings or the shapes differ.
    """
    (leaves, form), (others, other) = tree.explored(_listed(params)), tree.explored(_listed(grads))
    gradients = [leaf.value for leaf in others]
    if form != other:
        own, found = _places(leaves), _places(others)
        if own.keys() != found.keys():
            differing = ", ".join(sorted(own.keys() ^ found.keys()))
            raise ShapeError(f"update: parameters and gradients differ in {differing}; pass what grad was asked for")
        gradients = [found[place] for place in own]
    for leaf, gradient in zip(leaves, gradients, strict=True):
        parameter = leaf.value
        if gradient.shape != parameter.shape:
            place = _readable(leaf.path)
            raise ShapeError(f"update: {place} has shape {parameter.shape}, its gradient {gradient.shape}")
        yield parameter, gradient


def _listed(nesting: Any) -> Any:
    """A nesting as it is, or what a generator such as `model.parameters()` yields."""
    is_nesting = isinstance(nesting, Tensor | Mapping | list | tuple) or tree.is_module(nesting)
    return nesting if is_nesting else list(nesting)


def _places(leaves: Iterable[tree.Leaf]) -> dict[str, Any]:
    """Leaves by place: `name` in a module or dict, `[0]` in a list, and both after one another."""
    return {_readable(leaf.path): leaf.value for leaf in leaves}


def _readable(path: str) -> str:
    """A place written the same way in a module as in a dict of its parameters, which is what its gradients are."""
    named = path.replace("']['", ".").replace("'].", ".").replace("['", "").replace("']", "").replace("].", "]")
    return named.removeprefix(".") or "parameter"
