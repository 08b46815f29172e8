"""`save_checkpoint` and `load_checkpoint`: everything that a training run consists of, in one safetensors file.

A run goes on from a checkpoint with the same bits as if it had never stopped: the file holds the tensors of modules
(private ones such as dropout's counter too), of optimisers and scalers, the numbers of schedules and loaders, and the
random generator. Nothing is pickled. This module must not know any one optimiser, schedule or layer: it asks for
`state_dict`, and modules for their tensors.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from vkgrad import engine, random
from vkgrad.errors import DataError, ShapeError
from vkgrad.nn.module import Module
from vkgrad.optim.optimizer import Optimizer
from vkgrad.serialization import load, load_metadata, save
from vkgrad.spelling import listed
from vkgrad.tensor import Tensor, asarray

FORMAT = "vkgrad checkpoint 1"
GENERATOR = "random"  # the part that holds the random generator
RATES = "learning rates"
_NUMBERS = (bool, int, float, str, type(None))


def save_checkpoint(path: str | os.PathLike[str], **parts: Any) -> None:
    """Write the parts of a training run, each under its keyword, and the state of the random generator.

    A part is a module (an `AveragedModel` too), an optimiser, a schedule, a `GradScaler`, an `EarlyStopping`, a
    `DataLoader` or anything else with a `state_dict` of tensors and numbers; a tensor; or a number, text or None, such
    as the step. Call it between two steps. The file replaces an older one in one move, so a crash while it is written
    leaves the older one.

    Raises:
        DataError: a part is none of these.

    Example:
        >>> import os, tempfile, vkgrad as vg
        >>> path = os.path.join(tempfile.mkdtemp(), "run.safetensors")
        >>> model = vg.nn.Linear(2, 1)
        >>> optimizer = vg.optim.Adam(model, lr=0.1)
        >>> vg.save_checkpoint(path, model=model, optimizer=optimizer, step=7)
        >>> vg.load_checkpoint(path, model=model, optimizer=optimizer)
        {'step': 7}
    """
    if GENERATOR in parts:
        raise DataError(f"save_checkpoint: the part {GENERATOR!r} is the generator's; choose another keyword")
    tensors: dict[str, Any] = {}
    numbers: dict[str, Any] = {}
    for part, value in {**parts, GENERATOR: _Generator()}.items():
        if isinstance(value, _NUMBERS):
            numbers[part] = value
            continue
        numbers[part] = {}
        for name, entry in _state_of(part, value).items():
            if isinstance(entry, Tensor | np.ndarray):
                tensors[f"{part}/{name}"] = entry
            elif _is_plain(entry):
                numbers[part][name] = entry
            else:
                raise DataError(f"save_checkpoint: {part} has {name}, a {type(entry).__name__}, in its state")
    save(tensors, path, metadata={"format": FORMAT, "numbers": json.dumps(numbers)})


def load_checkpoint(path: str | os.PathLike[str], **parts: Any) -> dict[str, Any]:
    """Bring parts made like those that were saved, and the random generator, to their saved state.

    Returns the numbers and texts that were saved beside them, by keyword. A part of the file that is not asked for is
    left in it. Nothing is changed unless all of it fits; that is not asked of a part whose attribute `open_state` is
    true, because it has more names once it has run.

    Raises:
        DataNotFoundError: there is no such file.
        DataError: the file is damaged or no checkpoint, lacks a part, or a part's names differ from those saved.
        ShapeError: a tensor has another shape than the saved one.
    """
    metadata = load_metadata(path)
    if metadata.get("format") != FORMAT:
        raise DataError(f"{path}: not a checkpoint of this version of vkgrad; vg.load reads it as named tensors")
    numbers: dict[str, Any] = json.loads(metadata["numbers"])
    states: dict[str, dict[str, Any]] = {part: dict(v) for part, v in numbers.items() if isinstance(v, dict)}
    for name, tensor in load(path).items():
        part, _, inner = name.partition("/")
        states[part][inner] = tensor
    wanted = {**parts, GENERATOR: _Generator()}
    for part, value in wanted.items():
        if part not in states:
            raise DataError(f"{path}: no part {part!r} to load; the checkpoint has {', '.join(sorted(states))}")
        if not getattr(value, "open_state", False):
            _check(f"{path}: {part}", _state_of(part, value), states[part])
    for part, value in wanted.items():
        _bring(value, states[part])
    engine.flush()
    return {part: value for part, value in numbers.items() if not isinstance(value, dict)}


def _state_of(part: str, value: Any) -> dict[str, Any]:
    """A part's tensors and numbers, by name."""
    if isinstance(value, Tensor):
        return {"": value}
    if isinstance(value, Module):
        return dict(_all_tensors(value))
    if isinstance(value, Optimizer):
        rates = [group.rate for group in value.param_groups]  # the tensors have fewer digits than a schedule
        return {**value.state_dict(), RATES: rates}
    if not hasattr(value, "state_dict") or not hasattr(value, "load_state_dict"):
        raise DataError(
            f"save_checkpoint: {part} is a {type(value).__name__}; a part is a tensor, a number, a text, or has "
            "state_dict and load_state_dict"
        )
    return dict(value.state_dict())


def _is_plain(value: Any) -> bool:
    """Whether a value is a number, a text, or a nesting of them in lists and dicts, which JSON gives back as it was."""
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_plain(part) for name, part in value.items())
    return all(map(_is_plain, value)) if isinstance(value, list) else isinstance(value, _NUMBERS)


def _all_tensors(module: Module) -> Iterator[tuple[str, Tensor]]:
    """A module's tensors, private ones too: its state dict, which is for exchange, leaves those out."""
    yield from module.named_parameters()
    yield from module.named_buffers()


def _check(place: str, own: Mapping[str, Any], saved: Mapping[str, Any]) -> None:
    if set(own) != set(saved):
        different = listed(sorted(set(own) ^ set(saved)))
        by_place = [any(name.startswith("[0].") for name in names) for names in (own, saved)]
        how = "; one was made of model, the other of model.parameters()" if by_place[0] != by_place[1] else ""
        raise DataError(f"{place} and what was saved differ in {different}{how}; make it as it was before saving")
    for name, value in own.items():
        if isinstance(value, Tensor) and value.shape != saved[name].shape:
            raise ShapeError(
                f"{place}: {name} has shape {value.shape}, the checkpoint has {saved[name].shape}; make it as it was "
                "before saving"
            )


def _bring(value: Any, state: Mapping[str, Any]) -> None:
    if isinstance(value, Tensor):
        value.assign(asarray(state[""], value.dtype))
    elif isinstance(value, Module):
        for name, own in _all_tensors(value):
            own.assign(asarray(state[name], own.dtype))
    elif isinstance(value, Optimizer):
        value.load_state_dict({name: entry for name, entry in state.items() if isinstance(entry, Tensor)})
        for group, rate in zip(value.param_groups, state[RATES], strict=True):
            group.set_rate(rate)
    else:
        value.load_state_dict(state)


class _Generator:
    """The random generator of `vkgrad.random`, as a part."""

    def state_dict(self) -> dict[str, Tensor]:
        return random.generator_state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        random.set_generator_state({name: np.asarray(value) for name, value in state.items()})
