"""`Module`: parameters and layers found by looking at attributes, so that nothing has to be registered.

A tensor with `requires_grad` is a parameter, any other tensor is a buffer (state that no gradient reaches), and lists,
tuples and dicts of them count as their contents. The state dict leaves out names that begin with an underscore: those
are private state, such as dropout's counter. This module must not know any layer, loss or optimiser.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from vkgrad import engine
from vkgrad.checked import Checked
from vkgrad.elsewhere import MODULES
from vkgrad.errors import ArgumentError, DataError, DTypeError, ShapeError, VkgradError
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import dtype_of, float32, float64
from vkgrad.nn.hooks import Hook, HookHandle, added, hooked
from vkgrad.notice import notice
from vkgrad.showing import html_table
from vkgrad.spelling import listed, meant, unknown
from vkgrad.tensor import Tensor, asarray

Self = TypeVar("Self", bound="Module")


def parameter(value: Any, requires_grad: bool = True) -> Tensor:
    """Mark a tensor (or what becomes one) as one that training changes, and return it; `Parameter` is the same."""
    value = asarray(value)
    value.requires_grad = requires_grad
    return value


Parameter = parameter  # PyTorch's name


# Called with each module that was called, its inputs and what it gave.
on_call: list[Callable[[Any, tuple[Any, ...], Any], None]] = []


class StateMismatch(NamedTuple):
    """What `load_state_dict(strict=False)` did not use: keys the file lacks, and keys the module lacks."""

    missing: list[str]
    unexpected: list[str]


class Module(Checked):
    """Base of all layers and models: assign tensors and modules as attributes, and write `forward`.

    Example:
        >>> import vkgrad as vg
        >>> class Scaled(vg.nn.Module):
        ...     def __init__(self):
        ...         self.inner = vg.nn.Linear(3, 2)
        ...         self.scale = vg.nn.parameter(vg.ones((2,)))
        ...     def forward(self, x):
        ...         return self.inner(x) * self.scale
        >>> [(name, p.shape) for name, p in Scaled().named_parameters()]
        [('inner.weight', (2, 3)), ('inner.bias', (2,)), ('scale', (2,))]
    """

    _training: bool = True
    _frozen: tuple[str, ...] = ()  # names of what `freeze` has made a buffer
    _transient: tuple[str, ...] = ()  # names of buffers that are not saved
    _kept: tuple[str, ...] = ()  # names of private tensors that are saved nonetheless, as PyTorch saves them
    _hooks: tuple[Hook, ...] = ()

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """Compute the output; every module writes its own."""
        raise NotImplementedError(f"{type(self).__name__} has no forward method; write one, or put it in a Sequential")

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        if engine.trace is not None and (trace := engine.tracing()) is not None:
            trace.uses(self, attributes_of)
        if inputs and _is_double(inputs[0]):
            _notice_doubles(self)
        try:
            output = hooked(self, self._hooks, inputs, options) if self._hooks else self.forward(*inputs, **options)
            for watch in on_call:
                watch(self, inputs, output)
            return output
        except VkgradError as error:
            _place(error, self)
            raise

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Called for what is not there: refused, with what was meant."""
            own = getattr(type(self), name, None)
            if isinstance(own, property):  # which is there, and lacks something itself
                return own.__get__(self)
            raise unknown(type(self).__name__, name, lambda: {*dir(type(self)), *vars(self)}, MODULES)

    def __setattr__(self, name: str, value: Any) -> None:
        old = vars(self).get(name)
        if isinstance(old, Tensor) and old._requires_grad and not isinstance(value, Tensor | Module | None):
            raise ArgumentError(
                f"{type(self).__name__}.{name} is a parameter, which a {type(value).__name__} is not: write "
                f"{name}.assign(value) to change its values, or assign nn.parameter(value) or None"
            )
        object.__setattr__(self, name, value)
        engine.renamed()

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        engine.renamed()

    # ---- hooks
    def register_forward_pre_hook(self, hook: Callable[..., Any], *, with_kwargs: bool = False) -> HookHandle:
        """Call `hook(module, inputs)` before `forward`; what it returns, if not None, takes the place of the inputs.

        With `with_kwargs` it is `hook(module, inputs, options)`, which returns both. A step that `vg.jit` has recorded
        calls no hook: they were called when it was recorded.
        """
        return added(self, "before", hook, with_kwargs)

    def register_forward_hook(self, hook: Callable[..., Any], *, with_kwargs: bool = False) -> HookHandle:
        """Call `hook(module, inputs, output)` after `forward`; what it returns, if not None, takes the output's place.

        With `with_kwargs` it is `hook(module, inputs, options, output)`.
        """
        return added(self, "after", hook, with_kwargs)

    def register_full_backward_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call `hook(module, grad_input, grad_output)` where the gradient passes this module; both are tuples.

        What it returns, if not None, takes the place of `grad_input`. A module of several inputs calls it once for
        each, with None for the others. It is not called where no gradient of an input is asked for, inside `vg.grad`.
        """
        return added(self, "backward", hook)

    # ---- what is inside
    def _contents(self) -> Mapping[str, Any]:
        """What this module holds, by name. Containers whose names differ from their attributes say so here."""
        return vars(self)

    def named_modules(self) -> Iterator[tuple[str, Module]]:
        """Yield this module (as "") and all modules inside, each once, outermost first."""
        seen: set[int] = set()
        for name, member in _members("", self):
            if isinstance(member, Module) and id(member) not in seen:
                seen.add(id(member))
                yield name, member

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the tensors that training changes, each once, in the order in which they were assigned."""
        return self._named_tensors(trained=True)

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the tensors that no gradient reaches, private ones too, each once."""
        return self._named_tensors(trained=False)

    def parameters(self) -> Iterator[Tensor]:
        return (tensor for _, tensor in self.named_parameters())

    def buffers(self) -> Iterator[Tensor]:
        return (tensor for _, tensor in self.named_buffers())

    def children(self) -> Iterator[Module]:
        """Yield the modules directly inside this one."""
        return (member for _, member in self.named_children())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the modules directly inside this one, with their names."""
        return ((name, member) for name, member in _own_members(self) if isinstance(member, Module))

    def modules(self) -> Iterator[Module]:
        """Yield this module and all modules inside, each once, outermost first."""
        return (module for _, module in self.named_modules())

    def get_submodule(self, target: str) -> Module:
        """The module of a dotted name, "" being this one.

        Raises:
            DataError: there is none.
        """
        return self._named("module", target, Module)

    def set_submodule(self, target: str, module: Module) -> None:
        """Put another module in the place of the one of a dotted name. Raises `DataError` where there is none."""
        self.get_submodule(target)
        around, _, name = target.rpartition(".")
        holder: Any = self.get_submodule(around)
        if hasattr(holder, "__setitem__"):
            holder[int(name) if name.isdigit() else name] = module
        else:
            setattr(holder, name, module)

    def get_parameter(self, target: str) -> Tensor:
        """The tensor of a dotted name. Raises `DataError` where there is none."""
        return self._named("parameter", target, Tensor)

    def get_buffer(self, target: str) -> Tensor:
        """The tensor of a dotted name that no gradient reaches. Raises `DataError` where there is none."""
        return self._named("buffer", target, Tensor)

    def _named(self, what: str, target: str, kind: type) -> Any:
        for name, member in _members("", self):
            if name == target and isinstance(member, kind):
                return member
        raise DataError(f"get_{what}: {type(self).__name__} has no {what} {target!r}")

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Set an attribute that no gradient reaches; it is saved if `persistent`. Assigning it does the same."""
        setattr(self, name, None if tensor is None else asarray(tensor))
        if not persistent:
            self._transient = (*self._transient, name)

    def register_parameter(self, name: str, param: Any) -> None:
        """Set an attribute that training changes. Assigning a `parameter` does the same."""
        setattr(self, name, None if param is None else parameter(param))

    def add_module(self, name: str, module: Module | None) -> None:
        """Set an attribute that is a module. Assigning it does the same."""
        setattr(self, name, module)

    register_module = add_module

    def _named_tensors(self, trained: bool) -> Iterator[tuple[str, Tensor]]:
        seen: set[int] = set()
        for name, member in _members("", self):
            if isinstance(member, Tensor) and member.requires_grad is trained and id(member) not in seen:
                seen.add(id(member))
                yield name, member

    # ---- state
    def state_dict(self) -> dict[str, Tensor]:
        """Everything worth saving, by the names that PyTorch uses. The tensors are the module's own, not copies."""
        found = {name: member for name, member in _members("", self) if isinstance(member, Tensor) and _is_saved(name)}
        for name, module in self.named_modules():
            for transient in module._transient:
                found.pop(_joined(name, transient), None)
            found |= {_joined(name, kept): vars(module)[kept] for kept in module._kept if kept in vars(module)}
        return found

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> StateMismatch:
        """Copy tensors or arrays into this module's own tensors, which keep their type.

        Nothing is changed unless all of it fits.

        Raises:
            DataError: with `strict`, a key is missing or not known.
            ShapeError: a shape differs.
        """
        kind = type(self).__name__
        if not isinstance(state, Mapping):
            raise ArgumentError(
                f"load_state_dict: takes tensors by name, not a {type(state).__name__}; vg.load(path) reads them from "
                "a file, other.state_dict() from a module"
            )
        own = self.state_dict()
        mismatch = StateMismatch([k for k in own if k not in state], [k for k in state if k not in own])
        if strict and any(mismatch):
            raise DataError(
                f"load_state_dict: {kind} misses {listed(mismatch.missing)} and does not know "
                f"{listed(mismatch.unexpected)}; {_mended(mismatch)}"
            )
        values = {name: asarray(state[name], own[name].dtype) for name in own if name in state}
        other = [f"{k} is {own[k].shape}, not {v.shape}" for k, v in values.items() if v.shape != own[k].shape]
        if other:
            raise ShapeError(
                f"load_state_dict: in {kind}, {listed(other, 6)}; make the model as it was when it was saved"
            )
        for name, value in values.items():
            own[name].assign(value)
        return mismatch

    # ---- modes
    @property
    def training(self) -> bool:
        """Whether this module is in training; a step recorded by `vg.jit` is recorded anew when that changes."""
        if (trace := engine.tracing()) is not None:
            trace.assumes(f"the mode of {type(self).__name__} (training)", self, "_training")
        return self._training

    @training.setter
    def training(self, mode: bool) -> None:
        engine.changes += 1
        self._training = mode

    def train(self: Self, mode: bool = True) -> Self:
        """Set this module and those inside to training (`mode=False`: to evaluation), and return it."""
        for _, module in self.named_modules():
            module.training = mode
        return self

    def eval(self: Self) -> Self:
        """Set this module and those inside to evaluation: dropout does nothing, batch norm uses what it has learnt."""
        return self.train(False)

    def apply(self: Self, function: Callable[[Module], object]) -> Self:
        """Call `function` on every module inside and then on this one, and return it."""
        for _, module in reversed(list(self.named_modules())):
            function(module)
        return self

    def freeze(self: Self) -> Self:
        """Turn the parameters into buffers, which training leaves alone, until `unfreeze`; and return this module."""
        for _, module in self.named_modules():
            for name, member in _own_members(module):
                if isinstance(member, Tensor) and member.requires_grad:
                    member.requires_grad = False
                    module._frozen = (*module._frozen, name)
        return self

    def unfreeze(self: Self) -> Self:
        """Turn what `freeze` took out of training into parameters again, and return this module."""
        for _, module in self.named_modules():
            for name, member in _own_members(module):
                if isinstance(member, Tensor) and name in module._frozen:
                    member.requires_grad = True
            module._frozen = ()
        return self

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """`unfreeze`, or with False `freeze`, and return this module."""
        return self.unfreeze() if requires_grad else self.freeze()

    def to(self: Self, dtype: Any) -> Self:
        """Convert the parameters and buffers of float types, in place, and return this module.

        Do it before the optimiser is made: its state has the types that the parameters had then.
        """
        try:
            wanted = dtype_of(dtype)
        except DTypeError:
            wanted = None
        if wanted is None or wanted.kind != "f":
            shown = repr(dtype) if wanted is None else wanted.name
            raise DTypeError(
                f"to: a module is converted to a float type, not {shown}; for a device call vg.set_device(name), once"
            )
        for _, member in _members("", self):
            if isinstance(member, Tensor) and member.dtype.kind == "f":
                member.grad = None
                member._become(b.cast(member.detach().node, wanted))
        return self

    def half(self: Self) -> Self:
        """`to(float16)`."""
        return self.to("float16")

    def bfloat16(self: Self) -> Self:
        """`to(bfloat16)`."""
        return self.to("bfloat16")

    def float(self: Self) -> Self:
        """`to(float32)`."""
        return self.to("float32")

    def double(self: Self) -> Self:
        """`to(float64)`."""
        return self.to("float64")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients that `backward` has left on the parameters."""
        for tensor in self.parameters():
            tensor.grad = None

    # ---- how it looks
    def extra_repr(self) -> str:
        """The arguments to show between the parentheses of this module's name."""
        return ""

    def __repr__(self) -> str:
        return "\n".join(_lines("", self))

    def _repr_html_(self) -> str:
        """What a notebook shows: a row for each module inside, with its parameters."""
        rows = []
        for name, module in self.named_modules():
            own = [(n, m) for n, m in _own_members(module) if isinstance(m, Tensor) and _is_saved(n)]
            shapes = ", ".join(f"{n} {m.shape}" for n, m in own)
            count = sum(p.size for p in module.parameters())
            rows.append((name or "·", f"{type(module).__name__}({module.extra_repr()})", f"{count:,}", shapes))
        return html_table(type(self).__name__, rows, ("name", "module", "parameters", "its own"))


def _is_double(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return dtype is float64 or (isinstance(dtype, np.dtype) and dtype == np.float64)


def _notice_doubles(module: Module) -> None:
    """NumPy's arrays are of doubles unless somebody says otherwise, and one makes all that follows double."""
    if any(parameter.dtype is float32 for parameter in module.parameters()):
        notice(
            "the input is float64 and the parameters are float32: all that follows is computed in float64, which most "
            "GPUs do slowly. Write x.astype(np.float32), or model.double() if that is meant"
        )


def _place(error: VkgradError, module: Module) -> None:
    """Say in an error where in the model it was raised, as far as it has come out of the calls."""
    if error.raised_in is None:
        error.raised_in, error.place = id(module), type(module).__name__
        return
    for name, member in module.named_modules():
        if name and id(member) == error.raised_in:
            error.place = f"{type(module).__name__}.{name} ({type(member).__name__})"


def attributes_of(module: Module) -> dict[str, Any]:
    """What a recorded step that used `module` relies on; modes are watched where they are looked at."""
    return {name: value for name, value in vars(module).items() if name not in ("_training", "_frozen")}


def _members(name: str, value: Any, inside: tuple[int, ...] = ()) -> Iterator[tuple[str, Tensor | Module]]:
    """Yield every tensor and module in `value`, by its dotted name, outermost first."""
    if isinstance(value, Tensor):
        yield name, value
        return
    if isinstance(value, Module):
        yield name, value
        if id(value) in inside:  # a module may hold the one that holds it
            return
        inside = (*inside, id(value))
        items: Iterable[tuple[str, Any]] = value._contents().items()
    else:
        items = _items(value)
    for key, item in items:
        if isinstance(item, Tensor):  # most of what is no number
            yield _joined(name, key), item
        elif isinstance(item, _HOLDERS):
            yield from _members(_joined(name, key), item, inside)


_HOLDERS = (Module, Mapping, list, tuple)


def _own_members(module: Module) -> Iterator[tuple[str, Tensor | Module]]:
    """Yield the tensors and modules that `module` holds itself, not those inside these modules."""
    stack = list(reversed([*module._contents().items()]))
    while stack:
        name, value = stack.pop()
        if isinstance(value, Tensor | Module):
            yield name, value
        else:
            stack.extend(reversed([(_joined(name, key), item) for key, item in _items(value)]))


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((str(key), item) for key, item in value.items())
    elif isinstance(value, list | tuple):
        yield from ((str(index), item) for index, item in enumerate(value))


def _joined(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _is_saved(name: str) -> bool:
    return not name.rpartition(".")[2].startswith("_")


def _mended(mismatch: StateMismatch) -> str:
    """What makes the keys of a state fit: a prefix less, or another spelling."""
    missing, unexpected = mismatch
    if {f"model/{name}" for name in missing} & set(unexpected):
        return "these are of a checkpoint, which vg.load_checkpoint(path, model=model) reads"
    for name in unexpected[:1]:
        prefix = name.partition(".")[0] + "."
        if {each.removeprefix(prefix) for each in unexpected} == set(missing):
            return f"take off the prefix {prefix!r}: {{k.removeprefix({prefix!r}): v for k, v in state.items()}}"
    letters = {name: "".join(c for c in name if not c.isdigit()) for name in (*missing, *unexpected)}
    near = [(name, meant(name, [m for m in missing if letters[m] != letters[name]])) for name in unexpected]
    if len(missing) == len(unexpected) and all(suggestion for _, suggestion in near):
        return "; ".join(f"{name!r}: {suggestion}" for name, suggestion in near[:3])
    return "pass strict=False to load what fits"


def _lines(name: str, module: Module, around: tuple[Module, ...] = ()) -> Iterator[str]:
    """Yield one line per module: its name, arguments, parameter count, and the shapes of its own parameters."""
    count = sum(p.size for p in module.parameters())
    own = [(n, m) for n, m in _own_members(module) if isinstance(m, Tensor) and _is_saved(n)]
    line = f"{'  ' * len(around)}{name}{': ' if name else ''}{type(module).__name__}({module.extra_repr()})"
    if count:
        line += f", {count:,} parameters"
    if own:
        line += ": " + ", ".join(f"{n} {m.shape}" for n, m in own)
    yield line
    for child_name, child in _own_members(module):
        if isinstance(child, Module) and child not in around:
            yield from _lines(child_name, child, (*around, module))
