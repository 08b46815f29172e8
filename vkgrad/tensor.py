"""The user's handle on a value: a node of the graph, and the few places where looking at it computes.

An operation only records a node; `numpy item tolist float int bool repr` read, and reading computes everything pending
in one submission. Operators are here; functions of tensors are in `vkgrad.functions`, which hang themselves on `Tensor`
as methods. This module must not know kernels or devices.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar, Union

import numpy as np

from vkgrad import autodiff, conversion, engine, history, placement, tree
from vkgrad.checked import shown
from vkgrad.conversion import Scalar
from vkgrad.elsewhere import of_tensor
from vkgrad.errors import ArgumentError, DifferentiationError, DTypeError, NoValueError, ShapeError
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType, bfloat16, dtype_of
from vkgrad.ir.node import Node, walk
from vkgrad.ir.op import OPS, Op, Shape
from vkgrad.ops.sources import LEAF
from vkgrad.ops.views import alias, permute
from vkgrad.showing import html_array
from vkgrad.spelling import spelled, unknown

ARRAY_API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")  # the last is the one implemented; it extends them
HOST = (1, 0)  # DLPack's number for host memory, where `numpy` puts a value
NUMPY_1 = np.__version__.startswith("1.")

NO_HISTORY = (
    "backward: this tensor was not computed from any with requires_grad=True, or it came out of a function under "
    "vg.jit (call backward inside), or backward was already called without retain_graph=True"
)

Operand: TypeAlias = Union["Tensor", np.ndarray, np.generic, Scalar]
Method: TypeAlias = Callable[..., Any]
F = TypeVar("F", bound=Callable[..., Any])


def operator(function: Callable[[Any, Any], Tensor], swap: bool = False) -> Callable[[Tensor, Any], Tensor]:
    """The method that a binary operator calls; it lets Python ask the other side where that is nothing we know."""

    def call(self: Tensor, other: Any) -> Tensor:
        if not is_operand(other):
            return NotImplemented
        return function(other, self) if swap else function(self, other)

    return call


def _binary(op: str, swap: bool = False) -> Callable[[Tensor, Any], Tensor]:
    record = OPS[op]

    def call(self: Tensor, other: Any) -> Tensor:
        if not is_operand(other):
            return NotImplemented
        return apply(record, other, self) if swap else apply(record, self, other)

    return call


def _unary(op: str) -> Callable[[Tensor], Tensor]:
    return lambda self: apply(op, self)


class Tensor:
    """An array of numbers that may not have been computed yet.

    Made by `vkgrad.tensor`, the creation functions and operations, not by calling the class. `keeps_history` says that
    the graph behind the value must stay, because `backward` or a running transform may ask for it.
    """

    __slots__ = ("__weakref__", "_grad", "_node", "_requires_grad", "keeps_history")
    __array_ufunc__ = None  # else `ndarray + tensor` would be computed by NumPy, and its gradient lost
    __hash__ = object.__hash__  # `==` compares elements, yet tensors are keys by identity

    keeps_history: bool

    def __init__(self, node: Node, *, keeps_history: bool = False) -> None:
        self._node = node
        self._requires_grad = False
        self._grad: Tensor | None = None
        self.keeps_history = keeps_history
        try:
            engine.register(self)
        except AttributeError:
            if isinstance(node, Node):
                raise
            raise ArgumentError("Tensor: the class is not called; write vg.tensor(data)") from None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Called for what is not there: refused, with what was meant."""
            own = getattr(Tensor, name, None)
            if isinstance(own, property):  # which is there, and lacks something itself
                return own.__get__(self)
            raise unknown("Tensor", name, lambda: dir(Tensor), {name: of_tensor(name) or _function(name)})

    # ---- what it is
    @property
    def node(self) -> Node:
        if engine.trace is not None and (trace := engine.tracing()) is not None:
            trace.reads(self)
        return self._node

    @node.setter
    def node(self, node: Node) -> None:
        if engine.trace is not None and (trace := engine.tracing()) is not None:
            trace.rebinds(self)
        engine.changes += 1
        self._node = node
        if self._requires_grad:
            history.own(node, self)

    @property
    def shape(self) -> Shape:
        return self._node.shape

    @property
    def dtype(self) -> DType:
        return self._node.dtype

    @property
    def ndim(self) -> int:
        return self._node.ndim

    @property
    def size(self) -> int:
        return self._node.size

    @property
    def device(self) -> Any:
        """Where the value is, or will be computed."""
        return engine.device_of([self._node])

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """This tensor on another device (as `vg.set_device` names it, or another tensor's `.device`): a copy there.

        The value travels through the host, and no gradient comes back.

        Raises: `DifferentiationError` where a gradient could be asked for.
        """
        del stream  # a Vulkan device has one queue here
        target = placement.found(device)
        if target is self.device:
            return self
        if self.requires_grad or self.keeps_history:
            raise DifferentiationError("to_device: no gradient travels between devices; use .detach() first")
        with placement.on(device):
            return tensor(self.numpy(), self.dtype)

    @property
    def T(self) -> Tensor:
        """The tensor with its axes in reverse order; a view."""
        return derived(permute(self.node, range(self.ndim)[::-1]), self)

    @property
    def mT(self) -> Tensor:
        """The tensor with its last two axes swapped; a view."""
        if self.ndim < 2:
            raise ShapeError(f"mT: a matrix has at least 2 axes, this tensor has shape {self.shape}")
        return derived(permute(self.node, [*range(self.ndim - 2), self.ndim - 1, self.ndim - 2]), self)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len: a tensor with no axes has no length; x.reshape(1) has one element")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[position] for position in range(len(self)))

    # ---- its value: these compute
    def numpy(self) -> np.ndarray:
        """The value as a new NumPy array (bfloat16, which NumPy lacks, as float32). Computes everything pending."""
        return self._read("numpy()")

    def _read(self, call: str) -> np.ndarray:
        """The value, for whoever asked by `call`, which the error names."""
        try:
            return engine.read(self.node)
        except NoValueError as error:
            raise NoValueError(f"{call}: {error}") from None

    def item(self) -> Scalar:
        """The one element as a Python number. Raises `ShapeError` when there is not exactly one."""
        return self._one("item()")

    def _one(self, call: str) -> Scalar:
        if self.size != 1:
            raise ShapeError(
                f"{call}: a tensor of shape {self.shape} has {self.size} elements, not one; reduce it, by .mean() say, "
                "or use .tolist()"
            )
        return self._read(call).item()

    def tolist(self) -> Any:
        """The value as nested lists of Python numbers."""
        return self._read("tolist()").tolist()

    def __float__(self) -> float:
        return float(self._one("float()"))

    def __complex__(self) -> complex:
        return complex(self._one("complex()"))

    def __index__(self) -> int:
        if self.ndim or self.dtype.kind not in "iu":
            raise TypeError(
                f"only an integer without axes is an index or a count, this tensor is {self.dtype.name}{[*self.shape]}"
                "; write int(x)"
            )
        return int(self._one("index or count"))

    def __int__(self) -> int:
        return int(self._one("int()"))

    def __round__(self, digits: int | None = None) -> float:
        return round(self.item(), digits)

    def __format__(self, spec: str) -> str:
        """The one element by the format's rules, `f"{loss:.3f}"`; without any, the text of the tensor."""
        return format(self.item(), spec) if spec else str(self)

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ShapeError(
                f"bool(): {self.size} elements of shape {self.shape} are not one that is true or false; write "
                "vg.any(x) or vg.all(x), or vg.where(x, a, b) to choose for each"
            )
        return bool(self._one("bool()"))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("a tensor lives on its device; NumPy can only have a copy of it")
        value = self.numpy()
        return value if dtype is None else value.astype(dtype, copy=False)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The module whose functions take tensors, by the array API standard: `vkgrad` itself."""
        if api_version is not None and api_version not in ARRAY_API_VERSIONS:
            raise ValueError(f"array API version {api_version!r} is none of {', '.join(ARRAY_API_VERSIONS)}")
        return sys.modules["vkgrad"]

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        """A copy of the value in host memory, for another framework's `from_dlpack`."""
        if self.dtype is bfloat16:
            raise BufferError("__dlpack__: NumPy, which hands out the value, has no bfloat16; use .astype(vg.float32)")
        if dl_device is not None and tuple(dl_device) != HOST:
            raise BufferError(f"__dlpack__: a value is handed out in host memory, {HOST}, not on device {dl_device}")
        if copy is False:
            raise BufferError("__dlpack__: a tensor lives on its device; others can only have a copy of it")
        # NumPy 1 does not know the versions of the protocol; its capsules are of the first, which all can read.
        versioned = {} if NUMPY_1 or max_version is None else {"max_version": max_version}
        return self.numpy().__dlpack__(stream=stream, **versioned)

    def __dlpack_device__(self) -> tuple[int, int]:
        return HOST

    def __repr__(self) -> str:
        digits = np.array2string(self._read("print or repr"), separator=", ", prefix="tensor(")
        asked = ", requires_grad=True" if self.requires_grad else ""
        return f"tensor({digits}, dtype={self.dtype.name}{asked})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the corners of up to two axes as a table, more axes as text."""
        asked = ", requires_grad" if self.requires_grad else ""
        return html_array(f"{self.dtype.name} {self.shape}{asked}", self.numpy())

    def __reduce__(self) -> tuple:
        return _restore, (self.numpy(), self.dtype.name, self.requires_grad)

    # ---- changing which value this is
    def assign(self, value: Operand) -> None:
        """Make this tensor hold `value` from now on; what was computed from the old value does not change.

        Raises:
            ShapeError: the shapes differ.
            DTypeError: the element types differ.
        """
        if value is self:
            return
        new = value.node if isinstance(value, Tensor) else _literal(value, self.dtype, self.shape)
        if new.shape != self.shape:
            turned = "; assign its .mT" if new.shape[::-1] == self.shape else ""
            raise ShapeError(f"assign: a tensor of shape {self.shape} cannot hold a value of shape {new.shape}{turned}")
        if new.dtype is not self.dtype:
            raise DTypeError(f"assign: a {self.dtype.name} tensor cannot hold {new.dtype.name}; use .astype first")
        self._become(engine.another(new) if isinstance(value, Tensor) and engine.has_value(new) else new)

    def _become(self, node: Node) -> None:
        # A pending value may be equal to another expression, which then would be the same node and get its gradient.
        self.node = alias(node) if self._requires_grad and node.op is not LEAF else node
        engine.register(self)

    def astype(self, dtype: Any, copy: bool = True, device: Any = None) -> Tensor:
        """The elements converted to `dtype`, as NumPy converts them. Values never change, so `copy` is the same."""
        del copy
        converted = derived(b.cast(self.node, dtype_of(dtype)), self)
        return converted if device is None else converted.to_device(device)

    def detach(self) -> Tensor:
        """The same value with no history: no gradient flows through it."""
        return Tensor(b.build("stop_gradient", self.node))

    # ---- gradients, the PyTorch way
    @property
    def grad(self) -> Tensor | None:
        """What `backward` has left here, or None."""
        if (trace := engine.tracing()) is not None:
            trace.reads_gradient(self)
        return self._grad

    @grad.setter
    def grad(self, gradient: Tensor | None) -> None:
        if (trace := engine.tracing()) is not None:
            trace.sets_gradient(self)
        engine.changes += 1
        self._grad = gradient

    @property
    def requires_grad(self) -> bool:
        """Whether `backward` leaves a gradient in `.grad`. Set it on the tensors that training changes."""
        if engine.trace is not None and (trace := engine.tracing()) is not None:
            trace.assumes("requires_grad of a tensor", self, "_requires_grad")
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, asked: bool) -> None:
        if asked and self.dtype.kind != "f":
            raise DifferentiationError(f"requires_grad: only floats have gradients, this tensor is {self.dtype.name}")
        if asked and self.keeps_history:
            raise DifferentiationError(
                "requires_grad: this tensor is computed from others that require gradients; use .detach() first"
            )
        if asked != self._requires_grad:
            engine.changes += 1
            self._requires_grad = asked
            self._become(self.node)

    def backward(self, gradient: Operand | None = None, *, retain_graph: bool = False) -> None:
        """Add the gradient of this tensor to `.grad` of every tensor with `requires_grad` it was computed from.

        `gradient` is the weight of each element; one number needs none. Afterwards this tensor lets go of its graph,
        unless `retain_graph`.

        Raises:
            DifferentiationError: there is no such tensor, or this one has several elements and no weights.
            ShapeError: `gradient` has another shape.
        """
        if gradient is None and self.size != 1:
            raise DifferentiationError(
                f"backward: starts from one number, this tensor has shape {self.shape}; reduce it or pass gradient="
            )
        weight = _literal(1 if gradient is None else gradient, self.dtype, self.shape)
        if weight.shape != self.shape:
            raise ShapeError(f"backward: gradient has shape {weight.shape}, the tensor {self.shape}")
        is_owned = lambda node: history.owner(node) is not None  # noqa: E731
        if not (self.keeps_history or self._requires_grad):
            raise DifferentiationError(NO_HISTORY)
        wanted = [node for node in walk([self.node], is_owned, autodiff.sources) if is_owned(node)]
        if not wanted:
            raise DifferentiationError(NO_HISTORY)
        for node, part in zip(wanted, autodiff.vjp([self.node], wanted, [weight]), strict=True):
            target = history.owner(node)
            if part is not None and target is not None:
                if target.grad is None:
                    target.grad = Tensor(part)
                else:
                    target.grad._become(b.apply("add", target.grad.node, part))
        if not retain_graph:
            self.keeps_history = False
        for watch in history.on_gradients:
            watch("backward", [owned.grad for node in wanted if (owned := history.owner(node)) is not None])

    # ---- operators
    __add__, __radd__ = _binary("add"), _binary("add", swap=True)
    __sub__, __rsub__ = _binary("subtract"), _binary("subtract", swap=True)
    __mul__, __rmul__ = _binary("multiply"), _binary("multiply", swap=True)
    __floordiv__, __rfloordiv__ = _binary("floor_divide"), _binary("floor_divide", swap=True)
    __mod__, __rmod__ = _binary("remainder"), _binary("remainder", swap=True)
    __and__, __rand__ = _binary("bitwise_and"), _binary("bitwise_and", swap=True)
    __or__, __ror__ = _binary("bitwise_or"), _binary("bitwise_or", swap=True)
    __xor__, __rxor__ = _binary("bitwise_xor"), _binary("bitwise_xor", swap=True)
    __lshift__, __rlshift__ = _binary("bitwise_left_shift"), _binary("bitwise_left_shift", swap=True)
    __rshift__, __rrshift__ = _binary("bitwise_right_shift"), _binary("bitwise_right_shift", swap=True)
    __lt__, __le__ = _binary("less"), _binary("less_equal")
    __gt__, __ge__ = _binary("greater"), _binary("greater_equal")
    __eq__, __ne__ = _binary("equal"), _binary("not_equal")  # type: ignore[assignment]
    __neg__, __abs__, __invert__ = _unary("negative"), _unary("abs"), _unary("bitwise_invert")

    def __pos__(self) -> Tensor:
        return self

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(
            "tensors do not change in place; write x = x.at[index].set(value), for a parameter "
            "w.assign(w.at[index].set(value))"
        )

    # ---- what vkgrad.functions and vkgrad.indexing define, once for `vg.f(x)` and `x.f()`
    __getitem__: ClassVar[Method]
    __matmul__: ClassVar[Method]
    __divmod__: ClassVar[Callable[[Tensor, Any], tuple[Tensor, Tensor]]]
    __pow__: ClassVar[Method]
    __rdivmod__: ClassVar[Callable[[Any, Any], tuple[Tensor, Tensor]]]
    __rmatmul__: ClassVar[Method]
    __rpow__: ClassVar[Method]
    __rtruediv__: ClassVar[Method]
    __truediv__: ClassVar[Method]
    abs: ClassVar[Method]
    all: ClassVar[Method]
    any: ClassVar[Method]
    argmax: ClassVar[Method]
    argmin: ClassVar[Method]
    argsort: ClassVar[Method]
    at: ClassVar[Any]
    broadcast_to: ClassVar[Method]
    ceil: ClassVar[Method]
    clip: ClassVar[Method]
    cos: ClassVar[Method]
    cumprod: ClassVar[Method]
    cumsum: ClassVar[Method]
    diagonal: ClassVar[Method]
    exp: ClassVar[Method]
    expand_dims: ClassVar[Method]
    flatten: ClassVar[Method]
    flip: ClassVar[Method]
    floor: ClassVar[Method]
    isnan: ClassVar[Method]
    log: ClassVar[Method]
    log_softmax: ClassVar[Method]
    logsumexp: ClassVar[Method]
    max: ClassVar[Method]
    mean: ClassVar[Method]
    min: ClassVar[Method]
    moveaxis: ClassVar[Method]
    norm: ClassVar[Method]
    permute: ClassVar[Method]
    prod: ClassVar[Method]
    relu: ClassVar[Method]
    repeat: ClassVar[Method]
    reshape: ClassVar[Method]
    round: ClassVar[Method]
    sigmoid: ClassVar[Method]
    sign: ClassVar[Method]
    sin: ClassVar[Method]
    softmax: ClassVar[Method]
    sort: ClassVar[Method]
    split: ClassVar[Method]
    sqrt: ClassVar[Method]
    square: ClassVar[Method]
    squeeze: ClassVar[Method]
    std: ClassVar[Method]
    sum: ClassVar[Method]
    swapaxes: ClassVar[Method]
    take: ClassVar[Method]
    tanh: ClassVar[Method]
    transpose: ClassVar[Method]
    var: ClassVar[Method]


def method(function: F) -> F:
    """Make a function of a tensor one of its methods too; the class names those it has, for type checkers."""
    assert function.__name__ in Tensor.__annotations__
    function = spelled(function)
    setattr(Tensor, function.__name__, function)
    return function


def _function(name: str) -> str:
    """What to write instead of a method that is only a function."""
    is_there = not name.startswith("_") and callable(vars(sys.modules["vkgrad"]).get(name))
    return f"write vg.{name}(x, ...)" if is_there else ""


# ---- from what users hold to nodes, and back
_OPERANDS = (Tensor, bool, int, float, np.generic, np.ndarray)


def is_operand(value: object) -> bool:
    """Whether a value can stand beside a tensor in an operation: it is one, or an array or a number."""
    return isinstance(value, _OPERANDS) or hasattr(value, "__dlpack__")


def operand(value: object) -> Node | Scalar:
    """The node of a tensor, a new leaf for an array, or a number; NumPy's scalars and 0-d arrays count as numbers."""
    if isinstance(value, Tensor):
        return value.node
    if isinstance(value, np.generic):  # before float, since NumPy's float64 is a Python float as well
        return conversion.number(value)
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple | complex):
        return asarray(value).node
    if not isinstance(value, np.ndarray):
        if not hasattr(value, "__dlpack__"):
            raise ArgumentError(f"tensor: {shown(value)} is neither a tensor nor an array nor a number")
        value = conversion.from_dlpack(value)
    return conversion.upload(value) if value.ndim else conversion.number(value.flat[0])


def _literal(value: Operand, dtype: DType, shape: Shape) -> Node:
    """`value` as a node; a number takes `dtype` and fills `shape`."""
    found = operand(value)
    return found if isinstance(found, Node) else b.constant(found, dtype, shape)


def derived(node: Node, *sources: object) -> Tensor:
    """The tensor of a node that was built from `sources`."""
    if node.op is LEAF:
        engine.changes += 1  # nothing was built, yet somebody new holds the leaf: say so to recorded steps
    return Tensor(node, keeps_history=node.dtype.kind == "f" and history.must_keep(sources))


def apply(op: Op | str, *operands: Operand, **attributes: Any) -> Tensor:
    """An element-wise primitive on tensors, arrays and numbers, which take a common type and shape first."""
    if engine.trace is None:  # nobody wants to know who looks at a tensor
        nodes = [value._node if isinstance(value, Tensor) else operand(value) for value in operands]
    else:
        nodes = [operand(value) for value in operands]
    return derived(b.apply(op, *nodes, **attributes), *operands)


def host_elements(x: Tensor) -> np.ndarray | None:
    """The elements of a tensor that nobody has uploaded yet, where looking at them waits for nothing; else None."""
    known = engine.values.get(x._node)
    return known.source if known is not None else None


def lift(value: object) -> Tensor:
    """A tensor for any operand. A number becomes a literal, which kernels hold in their text; nothing is uploaded."""
    if isinstance(value, Tensor):
        return value
    found = operand(value)
    return Tensor(found if isinstance(found, Node) else b.constant(found, b.weak_dtype(found, None)))


def tensor(data: Any, dtype: Any = None, *, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of `data`: a number, nested lists, a NumPy array, a tensor or a DLPack object.

    NumPy arrays keep their element type; Python floats become float32, ints int32, bools bool.

    Raises:
        DTypeError: an element type that vkgrad does not have, or integers that int32 cannot hold.
        ShapeError: lists of unequal lengths.

    Example:
        >>> import vkgrad as vg
        >>> vg.tensor([[1.0, 2.0], [3.0, 4.0]]).shape
        (2, 2)
    """
    if isinstance(data, Tensor):
        made = asarray(data, dtype).detach()
    else:
        if isinstance(conversion.first_of(data), Tensor):
            raise ArgumentError(
                f"tensor: a {type(data).__name__} of tensors is none; take one of them, or join them by vg.stack or "
                "vg.concat"
            )
        array, default = conversion.as_array(data, dtype)
        made = Tensor(conversion.upload(array, default if dtype is None else dtype))
    if requires_grad:
        made.requires_grad = True
    return made


def adopted(array: np.ndarray) -> Tensor:
    """A tensor with the elements of an array that nobody changes any more: it is not copied where it need not be."""
    return Tensor(conversion.upload(array, copy=False))


def asarray(data: Any, dtype: Any = None, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """`data` as a tensor; one that is a tensor already is returned as it is, if it has the type asked for.

    Raises: `ValueError` if `copy` is False and `data` is no such tensor.
    """
    if isinstance(data, Tensor):
        found = data if dtype is None or data.dtype is dtype_of(dtype) else data.astype(dtype)
        found = found if device is None else found.to_device(device)
        if copy is False and found is not data:
            raise ValueError(
                f"asarray: {data.dtype.name} on {data.device.name} is not what was asked for without a copy"
            )
        return derived(alias(data.node), data) if copy and found is data else found
    if copy is False:
        raise ValueError("asarray: what is not a tensor yet has to be copied to its device")
    with placement.on(device):
        return tensor(data, dtype)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor with the elements of another framework's array, handed over through DLPack in host memory.

    Raises: `ValueError` if `copy` is False: the elements have to be copied to the device.
    """
    if copy is False:
        raise ValueError("from_dlpack: the elements have to be copied to the device; leave copy out")
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"from_dlpack: a {type(x).__name__} does not speak DLPack; use vg.asarray")
    return asarray(x, device=device)


def eval(*tensors: Any) -> None:
    """Compute these tensors (or nestings of them) together, in one flush, and keep their values on the device."""
    engine.evaluate([leaf.value.node for leaf in tree.leaves(tensors) if isinstance(leaf.value, Tensor)])


def _restore(array: np.ndarray, dtype: str, requires_grad: bool) -> Tensor:
    return tensor(array, dtype, requires_grad=requires_grad)
