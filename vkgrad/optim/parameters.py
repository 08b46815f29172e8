"""Which tensors an optimiser changes, and which gradient belongs to which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from vkgrad import tree
from vkgrad.errors import OptionError, ShapeError
from vkgrad.spelling import listed
from vkgrad.tensor import Tensor

MENDED = "pass the gradients that grad gave for these parameters"


def named_parameters(params: Any) -> dict[str, Tensor]:
    """The tensors of a module or of any nesting, each once, by their place in it."""
    found: dict[str, Tensor] = {}
    for place, value in _places(tree.leaves(_listed(params))).items():
        if not isinstance(value, Tensor):
            raise OptionError(f"an optimiser changes tensors; {place} is a {type(value).__name__}")
        if all(value is not other for other in found.values()):
            found[place] = value
    return found


def with_gradients(params: Any, grads: Any) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield each parameter of `params`, after its place, with its gradient in `grads`, which has the same nesting.

    A list goes with a tuple, and a module with a dict of the names of its parameters.

    Raises:
        ShapeError: the nestings or the shapes differ.
    """
    (leaves, form), (others, other) = tree.explored(_listed(params)), tree.explored(_listed(grads))
    gradients = [leaf.value for leaf in others]
    if form != other:
        own, found = _places(leaves), _places(others)
        if own.keys() != found.keys():
            is_pair = isinstance(grads, tuple) and len(grads) == 2 and tree.structure(grads[1]) == form
            mended = "value, gradients = vg.value_and_grad(f)(params) takes them apart" if is_pair else MENDED
            raise ShapeError(
                f"update: parameters and gradients differ in {listed(sorted(own.keys() ^ found.keys()))}; {mended}"
            )
        gradients = [found[place] for place in own]
    for leaf, gradient in zip(leaves, gradients, strict=True):
        parameter = leaf.value
        if gradient.shape != parameter.shape:
            raise ShapeError(
                f"update: {_readable(leaf.path)} has shape {parameter.shape}, its gradient {gradient.shape}; {MENDED}"
            )
        yield _readable(leaf.path), parameter, gradient


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
