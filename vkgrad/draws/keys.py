"""Keys, the random bits that they stand for, and fractions made of these.

A draw numbers its elements and encrypts the numbers under the key, so nothing is stored and nothing is uploaded but the
seed. This module must not know who draws, nor any distribution but the even one.

Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011 (Threefry-2x32-20).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral
from typing import Any

import numpy as np

from vkgrad import engine
from vkgrad import functions as f
from vkgrad.checked import shown
from vkgrad.errors import ArgumentError, DTypeError, OptionError
from vkgrad.functions.creation import as_shape, counter
from vkgrad.ir.dtypes import DType, float32, float64, uint32
from vkgrad.tensor import Operand, Tensor, apply, lift, tensor

__all__ = ["bits", "fold_in", "generator_state", "key", "manual_seed", "next_key", "set_generator_state", "split"]

# The second word of the counter says what the numbers are for, so that splitting a key and drawing with it never
# encrypt the same block.
_DRAW, _SPLIT, _FOLD, _EXAMPLE = 0, 1, 2, 3

RANDOMNESS = ("error", "different", "same")
# The functions of one example that are running, outermost first: what `randomness` says, and the example's number.
_examples: ContextVar[tuple[tuple[str, Tensor], ...]] = ContextVar("vkgrad_examples", default=())


def key(seed: int) -> Tensor:
    """A key from any integer; its low 64 bits count. Shape (2,), uint32."""
    if not isinstance(seed, Integral | Tensor):
        raise ArgumentError(f"random: a seed is a whole number, not {shown(seed)}")
    seed = int(seed)
    return tensor(np.array([seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF], np.uint32))


def split(key: Tensor, num: int = 2) -> Tensor:
    """New keys from a key; do not use the old one again. Shape (num, 2): index or unpack it.

    Example:
        >>> import vkgrad as vg
        >>> first, second = vg.random.split(vg.random.key(0))
        >>> vg.random.uniform(first, (2,)).shape
        (2,)
    """
    return _block(key, counter(num, uint32), _SPLIT)


def fold_in(key: Tensor, data: Operand) -> Tensor:
    """A new key from a key and a number, such as a step or a layer's index."""
    return _block(key, lift(data).astype(uint32), _FOLD)


def _block(key: Tensor, number: Tensor, purpose: int) -> Tensor:
    words = [_encrypted(key, number, purpose, word) for word in (0, 1)]
    return f.stack(words, -1)


def _encrypted(key: Tensor, number: Tensor, purpose: int, word: int) -> Tensor:
    if not isinstance(key, Tensor) or key.shape != (2,) or key.dtype is not uint32:
        got = f"{key.dtype.name}{list(key.shape)}" if isinstance(key, Tensor) else f"a {type(key).__name__}"
        raise DTypeError(f"random: what is drawn with is a key, uint32[2], got {got}; make one by vg.random.key(seed)")
    return apply("threefry", key[0], key[1], number, purpose, word=word)


def bits(key: Tensor, shape: int | Sequence[int] = (), word: int = 0) -> Tensor:
    """32 random bits for each element (uint32); `word` 1 is a second, independent set."""
    extents = as_shape("random", shape)
    return _encrypted(key, counter(math.prod(extents), uint32), _DRAW, word).reshape(extents)


def fraction(key: Tensor, shape: int | Sequence[int], dtype: DType = float32) -> Tensor:
    """Multiples of 2**-24 (float32; by the type's digits in others) in [0, 1), all equally likely."""
    if dtype is not float64:
        digits = {"float16": 11, "bfloat16": 8}.get(dtype.name, 24)
        return ((bits(key, shape) >> (32 - digits)).astype(float32) * 2.0**-digits).astype(dtype)
    high, low = (bits(key, shape) >> 5).astype(float64), (bits(key, shape, word=1) >> 6).astype(float64)
    return (high * 2.0**26 + low) * 2.0**-53


def centred(key: Tensor, shape: int | Sequence[int], dtype: DType = float32) -> Tensor:
    """Odd multiples of half a step: strictly inside (-1, 1) and symmetric, so that no quantile is infinite."""
    half_step = 2.0**-24 if dtype is float32 else 2.0**-53
    return fraction(key, shape, dtype) * 2.0 + (half_step - 1.0)


def positive_fraction(key: Tensor, shape: int | Sequence[int], dtype: DType = float32) -> Tensor:
    """`fraction`, but half of its smallest step where it is 0."""
    return f.maximum(fraction(key, shape, dtype), 2.0**-25 if dtype is float32 else 2.0**-54)


# ---- what a sequence of keys hands out where vmap runs a function for many examples at once
@contextmanager
def drawing_for(randomness: str, example: Tensor) -> Iterator[None]:
    """While a function of one example runs, its keys that come from no argument are as `randomness` says."""
    token = _examples.set((*_examples.get(), (randomness, example)))
    try:
        yield
    finally:
        _examples.reset(token)


def of_example(key: Tensor) -> Tensor:
    """A key that a sequence or a layer hands out, as the example that a function is running for has it.

    Raises: `OptionError` inside `vmap(randomness="error")`.
    """
    for randomness, example in _examples.get():
        if randomness == "error":
            raise OptionError(
                "vmap: the function draws random numbers from a sequence of keys (dropout, or no key given): say "
                'randomness="different" for others in each example, or "same"; or call model.eval(), or map over keys'
            )
        if randomness == "different":
            key = _block(key, example.astype(uint32), _EXAMPLE)
    return key


# ---- the generator that nn draws its initial weights from
_seed: Tensor | None = None
_drawn: Tensor | None = None


def _on_this_device(state: Tensor) -> Tensor:
    """The generator's state on the device that tensors are made on now, where the sequence goes on."""
    own = engine.device()  # which may only now be one more that is open
    if len(engine.opened()) == 1 or engine.device_of([state._node]) is own:
        return state
    return tensor(state.numpy())


def manual_seed(seed: int) -> None:
    """Start the sequence of keys that `nn` uses for initial weights and dropout."""
    global _seed, _drawn
    _seed, _drawn = key(seed), tensor(np.zeros((), np.uint32))


def generator_state() -> dict[str, Tensor]:
    """The state of the sequence that `next_key` draws from: the seed's key, and how many keys were drawn."""
    if _seed is None or _drawn is None:
        manual_seed(0)
    assert _seed is not None and _drawn is not None
    return {"seed": _seed, "drawn": _drawn}


def set_generator_state(state: Mapping[str, Any]) -> None:
    """Go on with the sequence where `generator_state` was asked."""
    for name, own in generator_state().items():  # in place: a recorded step that draws keys reads these very tensors
        own.assign(tensor(np.asarray(state[name], np.uint32)))


def next_key() -> Tensor:
    """The next key of the sequence that `manual_seed` started (seed 0 if nobody did)."""
    global _seed, _drawn
    if _seed is None or _drawn is None:
        manual_seed(0)
    assert _seed is not None and _drawn is not None
    _seed, _drawn = _on_this_device(_seed), _on_this_device(_drawn)
    # The count is a tensor, not a Python number: a recorded step that draws keys counts on when it is replayed.
    found = fold_in(_seed, _drawn)
    _drawn.assign(_drawn + 1)
    return of_example(found)
