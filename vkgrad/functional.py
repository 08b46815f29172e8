"""Transforms of functions: `grad`, `value_and_grad`, `vjp`, `jvp`, `linearize`, `jacobian`, `hessian`, `hvp`.

A transform gives the function arguments of its own, *aliases* of the given ones, so that no equal expression elsewhere
is taken for them, records what the function does, and differentiates that graph. The result is a graph again, so
transforms compose. Arguments are tensors or any nesting of dicts, lists, tuples and modules. This module must not know
operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import update_wrapper, wraps
from typing import Any

from vkgrad import autodiff, engine, history, tree
from vkgrad.batching import batch
from vkgrad.checked import function_in, shown
from vkgrad.errors import ArgumentError, DifferentiationError, ShapeError
from vkgrad.functions.creation import counter
from vkgrad.ir import build as b
from vkgrad.ir.node import Node
from vkgrad.ops.sources import leaf as new_leaf
from vkgrad.ops.views import alias
from vkgrad.tensor import Tensor, is_operand, lift

Function = Callable[..., Any]


@dataclass(frozen=True)
class Trace:
    """One call of a function on aliases of its differentiated arguments.

    inputs      the alias of each float leaf of those arguments, in order
    form        the nesting that gradients come back in
    output      what the function returned; `aux` what it returned beside that
    sources     the tensors that stood where the aliases are
    """

    inputs: list[Node]
    form: tree.Structure
    output: Any
    aux: Any
    sources: list[Tensor]

    def outside(self, nodes: Iterable[Node], value: Any) -> Any:
        """`value` for the world outside: its tensors keep the graph behind `nodes` only if someone else needs it."""
        own = set(self.inputs)
        kept = any(t.keeps_history for t in self.sources) or history.is_needed(nodes, own.__contains__)
        return tree.replace(lambda leaf: _with_history(leaf, kept), value)


def _with_history(leaf: Any, kept: bool) -> Any:
    return Tensor(leaf.node, keeps_history=kept) if isinstance(leaf, Tensor) and leaf.dtype.kind == "f" else leaf


def _trace(
    name: str, f: Function, args: Sequence[Any], kwargs: dict, argnums: int | Sequence[int], has_aux: bool
) -> Trace:
    positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for position in positions:
        if not -len(args) <= position < len(args):
            raise DifferentiationError(
                f"{name}: argnums {position} names none of {len(args)} positional arguments; the first is 0"
            )
    positions = tuple(position % len(args) for position in positions)
    if len(set(positions)) < len(positions):
        raise DifferentiationError(f"{name}: argnums {argnums} names an argument twice; name each once")
    inputs: list[Node] = []
    sources: list[Tensor] = []
    forms: list[tree.Structure] = []
    given = list(args)
    with ExitStack() as until_called:
        for position in positions:
            tensors = []
            leaves, form = tree.explored(given[position])
            forms.append(form)
            for leaf in leaves:
                source = _differentiable(name, f"argument {position}{leaf.path}", leaf.value)
                inputs.append(alias(source.node))
                sources.append(source)
                if leaf.of_module:
                    until_called.enter_context(standing_in(source, inputs[-1]))
                else:
                    tensors.append(Tensor(inputs[-1], keeps_history=True))
            given[position] = tree.replace(_one_by_one(tensors), given[position])
        until_called.enter_context(history.traced(inputs))
        output = f(*given, **kwargs)
    aux = None
    if has_aux:
        if not isinstance(output, tuple) or len(output) != 2:
            raise DifferentiationError(f"{name}: with has_aux the function must return (output, aux)")
        output, aux = output
    form = forms[0] if isinstance(argnums, int) else tree.Structure(tuple, (), tuple(forms))
    return Trace(inputs, form, output, aux, sources)


def _one_by_one(values: Sequence[Any]) -> Callable[[Any], Any]:
    """A function that returns `values` in order, whatever it is asked."""
    remaining = iter(values)
    return lambda _: next(remaining)


def _differentiable(name: str, where: str, value: Any) -> Tensor:
    if not is_operand(value):
        raise DifferentiationError(f"{name}: {where} is a {type(value).__name__}; only float tensors have gradients")
    tensor = lift(value)
    if tensor.dtype.kind != "f":
        raise DifferentiationError(
            f"{name}: {where} is of type {tensor.dtype.name}; only float tensors have gradients, .astype(vg.float32) "
            "makes one"
        )
    return tensor


@contextmanager
def standing_in(parameter: Tensor, node: Node):
    """Let `parameter` stand for `node` while the function runs."""
    before, kept = parameter.node, parameter.keeps_history
    # keeps_history: a read inside the function must not turn the alias into a leaf that nothing is differentiated by.
    parameter.node, parameter.keeps_history = node, True
    try:
        yield
    finally:
        parameter.keeps_history = kept
        if parameter.node is node:  # else the function has assigned to it
            parameter.node = before
            engine.register(parameter)


def _float_leaves(name: str, value: Any) -> list[Node]:
    """The nodes of the float tensors that a function returned."""
    nodes = []
    for leaf in tree.leaves(value):
        if not isinstance(leaf.value, Tensor):
            raise DifferentiationError(
                f"{name}: the function must return tensors, output{leaf.path} is a {type(leaf.value).__name__}"
            )
        if leaf.value.dtype.kind != "f":
            raise DifferentiationError(
                f"{name}: output{leaf.path} is of type {leaf.value.dtype.name}; only floats have derivatives"
            )
        nodes.append(leaf.value.node)
    return nodes


def _pull(trace: Trace, outputs: Sequence[Node], cotangents: Sequence[Node]) -> list[Node]:
    parts = autodiff.vjp(outputs, trace.inputs, cotangents)
    return [autodiff.zeros_like(x) if g is None else g for x, g in zip(trace.inputs, parts, strict=True)]


def _tensors(nodes: Sequence[Node]) -> list[Tensor]:
    return [Tensor(node, keeps_history=True) for node in nodes]


# ---- gradients
def value_and_grad(f: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """A function that returns `(f(*args), gradient)`.

    The gradient has the nesting of the argument named by `argnums`, with a dict of parameter names in the place of a
    module; a tuple of them if `argnums` is a sequence. With `has_aux`, f returns `(value, aux)` and so does the result
    in the place of the value.

    Raises: `DifferentiationError` when f does not return one float, or an argument is not of floats.

    Example:
        >>> import vkgrad as vg
        >>> value, gradient = vg.value_and_grad(lambda p: (p["w"] * p["w"]).sum())({"w": vg.tensor([1.0, 2.0])})
        >>> float(value), gradient["w"].tolist()
        (5.0, [2.0, 4.0])
    """
    return _value_and_grad("value_and_grad", f, argnums, has_aux)


def grad(f: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """A function that returns the gradient of f; with `has_aux`, `(gradient, aux)`. See `value_and_grad`.

    Example:
        >>> import vkgrad as vg
        >>> vg.grad(vg.grad(lambda x: x * x * x))(2.0).item()
        12.0
    """
    differentiated = _value_and_grad("grad", f, argnums, has_aux)

    @wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, found = differentiated(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def _value_and_grad(name: str, f: Function, argnums: int | Sequence[int], has_aux: bool) -> Function:
    function_in(name, f)

    def differentiated(*args: Any, **kwargs: Any) -> Any:
        trace = _trace(name, f, args, kwargs, argnums, has_aux)
        value = trace.output
        if not isinstance(value, Tensor) or value.shape != () or value.dtype.kind != "f":
            raise DifferentiationError(f"{name}: the function must return one float, it returned {_other(value)}")
        gradients = _pull(trace, [value.node], [b.constant(1, value.dtype)])
        result = ((value, trace.aux) if has_aux else value, trace.form.unflatten(_tensors(gradients)))
        for watch in history.on_gradients:
            watch(name, result[1])
        # Whatever the gradients depend on the value does, unless somebody wrote a derivative of his own.
        return trace.outside([value.node, *gradients] if autodiff.custom_rules else [value.node], result)

    update_wrapper(differentiated, f)
    return differentiated


def _other(value: Any) -> str:
    """What a function returned that is no float, and what to return instead."""
    if value is None:
        return "None; end it with return loss"
    if isinstance(value, tuple):
        return "a tuple; pass has_aux=True where it returns (loss, others)"
    if not isinstance(value, Tensor):
        return (
            f"a {type(value).__name__}, which knows no history; return the tensor, without float(), .item() or .numpy()"
        )
    if value.dtype.kind != "f":
        return f"{value.dtype.name}{list(value.shape)}; integers have no derivative, convert with .astype(vg.float32)"
    return f"{value.dtype.name}{list(value.shape)}; sum it, or use vg.jacobian"


# ---- products with the Jacobian
def vjp(f: Function, *primals: Any, has_aux: bool = False) -> tuple:
    """`(f(*primals), pull)`: `pull(cotangents)` is their product with the Jacobian of f, a tuple with one per primal.

    Cotangents have the nesting and shapes of the output. With `has_aux`, a third element is what f returned beside it.

    Example:
        >>> import vkgrad as vg
        >>> value, pull = vg.vjp(lambda x, y: x * y, vg.tensor([1.0, 2.0]), vg.tensor([3.0, 4.0]))
        >>> [g.tolist() for g in pull(vg.tensor([1.0, 10.0]))]
        [[3.0, 40.0], [1.0, 20.0]]
    """
    trace = _trace("vjp", f, primals, {}, tuple(range(len(primals))), has_aux)
    outputs = _float_leaves("vjp", trace.output)
    form = tree.structure(trace.output)

    def pull(cotangents: Any) -> Any:
        given = _directions("vjp", "cotangents", cotangents, form, outputs)
        gradients = _pull(trace, outputs, given)
        return trace.outside(gradients, trace.form.unflatten(_tensors(gradients)))

    value, aux = trace.outside(outputs, (trace.output, trace.aux))
    return (value, pull, aux) if has_aux else (value, pull)


def linearize(f: Function, *primals: Any) -> tuple:
    """`(f(*primals), push)`: `push(*tangents)` is the Jacobian of f times the tangents.

    It is the gradient of the gradient: the product of cotangents u with the Jacobian is linear in u, and its derivative
    with respect to u in the direction of the tangents is what is asked for. No primitive needs a second rule.
    """
    return _linearized("linearize", f, primals)


def _linearized(name: str, f: Function, primals: Sequence[Any]) -> tuple:
    if not isinstance(primals, tuple | list):
        raise ArgumentError(f"{name}: primals are a tuple with one for each argument, not {shown(primals)}; write (x,)")
    trace = _trace(name, f, primals, {}, tuple(range(len(primals))), False)
    outputs = _float_leaves(name, trace.output)
    form = tree.structure(trace.output)
    # Their value does not matter: what is linear in them has a derivative that they are not in.
    weights = [alias(autodiff.zeros_like(node)) for node in outputs]
    pulled = _pull(trace, outputs, weights)

    def push(*tangents: Any) -> Any:
        given = _directions(name, "tangents", tangents, trace.form, trace.inputs)
        parts = autodiff.vjp(pulled, weights, given)
        pushed = [autodiff.zeros_like(y) if t is None else t for y, t in zip(outputs, parts, strict=True)]
        return trace.outside(pushed, form.unflatten(_tensors(pushed)))

    return trace.outside(outputs, trace.output), push


def jvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple:
    """`(f(*primals), derivative of f in the direction of the tangents)`.

    Example:
        >>> import vkgrad as vg
        >>> value, slope = vg.jvp(vg.sin, (0.0,), (2.0,))
        >>> float(value), float(slope)
        (0.0, 2.0)
    """
    value, push = _linearized("jvp", f, primals)
    return value, push(*tangents)


def _directions(name: str, what: str, value: Any, form: tree.Structure, like: Sequence[Node]) -> list[Node]:
    """The leaves of cotangents or tangents, checked against what they belong to."""
    found, nesting = tree.flatten(value)
    if nesting != form:
        raise DifferentiationError(f"{name}: the {what} are nested as {nesting}, what they belong to as {form}")
    nodes = []
    for leaf, node in zip(found, like, strict=True):
        direction = _differentiable(name, what, leaf)
        if direction.shape != node.shape:
            raise ShapeError(
                f"{name}: one of the {what} has shape {direction.shape}, it must be {node.shape}, as what it belongs to"
            )
        nodes.append(b.cast(direction.node, node.dtype))
    return nodes


# ---- whole matrices of derivatives
def jacobian(f: Function, argnums: int = 0) -> Function:
    """A function that returns all derivatives of f, one batched reverse pass for each tensor of its output.

    Shapes: the output's, then the argument's; in the output's nesting, and inside that the argument's.

    Example:
        >>> import vkgrad as vg
        >>> vg.jacobian(lambda x: x * x)(vg.tensor([1.0, 2.0])).tolist()
        [[2.0, 0.0], [0.0, 4.0]]
    """

    @wraps(f)
    def derivatives(*args: Any, **kwargs: Any) -> Any:
        trace = _trace("jacobian", f, args, kwargs, argnums, False)
        outputs = _float_leaves("jacobian", trace.output)
        blocks: list[Any] = []
        made: list[Node] = []
        for output in outputs:
            one = new_leaf(output.shape, output.dtype)
            numbers = counter(output.size)
            unit = (numbers.reshape(-1, 1) == numbers).astype(output.dtype).reshape(output.size, *output.shape)
            pulled = _pull(trace, [output], [one])
            rows = batch(pulled, {one: unit.node}, output.size)
            matrices = [
                Tensor(
                    b.constant(0, x.dtype, output.shape + x.shape)
                    if every is None
                    else b.reshape(every, output.shape + x.shape)
                )
                for every, x in zip(rows, trace.inputs, strict=True)
            ]
            made.extend(matrix.node for matrix in matrices)
            blocks.append(trace.form.unflatten(matrices))
        return trace.outside(made, tree.structure(trace.output).unflatten(blocks))

    return derivatives


def hessian(f: Function, argnums: int = 0) -> Function:
    """A function that returns all second derivatives of a function of one number. Shapes: the argument's, twice."""
    return jacobian(grad(f, argnums), argnums)


def hvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The Hessian of f times the tangents, without building the Hessian.

    With one primal, the result has its nesting; with several, it is a tuple.
    """
    argnums = 0 if len(primals) == 1 else tuple(range(len(primals)))
    return jvp(grad(f, argnums), primals, tangents)[1]
