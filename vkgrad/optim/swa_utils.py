"""Averages of a model's weights over training and the rate for them, by PyTorch's names; on the device, and recordable.

This module must not know any layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from math import cos, pi
from typing import Any

import numpy as np

from vkgrad import functions as f
from vkgrad.errors import OptionError
from vkgrad.history import no_grad
from vkgrad.nn.module import Module
from vkgrad.optim.cycles import for_each
from vkgrad.optim.optimizer import Optimizer
from vkgrad.optim.schedules import Schedule
from vkgrad.tensor import Tensor, asarray, tensor

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Average = Callable[[Tensor, Tensor, Tensor], Tensor]
AverageOfAll = Callable[[list[Tensor], list[Tensor], Tensor], list[Tensor]]


def get_swa_avg_fn() -> Average:
    """The mean of all weights so far.

    Source: Izmailov et al. (2018), arXiv:1803.05407, Algorithm 1.
    """
    return lambda averaged, current, count: averaged + (current - averaged) / (count + 1).astype(averaged.dtype)


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """A running mean of which `decay` stays at each update."""
    return lambda averaged, current, count: decay * averaged + (1.0 - decay) * current


def get_swa_multi_avg_fn() -> AverageOfAll:
    """`get_swa_avg_fn` for all weights together."""
    return _of_all(get_swa_avg_fn())


def get_ema_multi_avg_fn(decay: float = 0.999) -> AverageOfAll:
    """`get_ema_avg_fn` for all weights together."""
    return _of_all(get_ema_avg_fn(decay))


def _of_all(average: Average) -> AverageOfAll:
    return lambda averaged, current, count: [average(a, b, count) for a, b in zip(averaged, current, strict=True)]


class AveragedModel(Module):
    """A copy of a model whose weights are averages; `update_parameters(model)` after each step or epoch.

    The first update copies. Keys of the state dict are PyTorch's: `n_averaged` and `module.<name>`.

    Args:
        avg_fn: the new average from the old one, the weights and the number of updates so far; their mean if None.
        multi_avg_fn: the same from lists of all of them, which returns a list; instead of `avg_fn`.
        use_buffers: average buffers (such as running means) too; they are copied otherwise.

    Example:
        >>> import vkgrad as vg
        >>> model = vg.nn.Linear(3, 2)
        >>> ema = vg.optim.swa_utils.AveragedModel(model, avg_fn=vg.optim.swa_utils.get_ema_avg_fn(0.9))
        >>> ema.update_parameters(model)
        >>> bool((ema(vg.ones((1, 3))) == model(vg.ones((1, 3)))).all())
        True
    """

    def __init__(
        self,
        model: Module,
        avg_fn: Average | None = None,
        multi_avg_fn: AverageOfAll | None = None,
        use_buffers: bool = False,
    ) -> None:
        if avg_fn is not None and multi_avg_fn is not None:
            raise OptionError("AveragedModel: give avg_fn or multi_avg_fn, not both")
        self.n_averaged = tensor(np.zeros((), np.int32))
        self.module = deepcopy(model)
        self.average = multi_avg_fn or _of_all(avg_fn or get_swa_avg_fn())
        self.use_buffers = use_buffers

    def forward(self, *inputs: Any, **options: Any) -> Any:
        return self.module(*inputs, **options)

    def update_parameters(self, model: Module) -> None:
        """Take the weights of now into the average."""
        current = dict(model.named_parameters()) | (dict(model.named_buffers()) if self.use_buffers else {})
        own = dict(self.module.named_parameters()) | dict(self.module.named_buffers())
        with no_grad():
            is_first = self.n_averaged == 0
            now = {name: value.detach() for name, value in current.items() if value.dtype.kind == "f"}
            averages = self.average([own[name].detach() for name in now], list(now.values()), self.n_averaged)
            for (name, value), average in zip(now.items(), averages, strict=True):
                own[name].assign(f.where(is_first, value, average))
            for name, value in model.named_buffers():
                if not (self.use_buffers and value.dtype.kind == "f"):
                    own[name].assign(value)
            self.n_averaged.assign(self.n_averaged + 1)


class SWALR(Schedule):
    """From the rate of now to `swa_lr` in `anneal_epochs` steps, then that.

    Args:
        swa_lr: one number, or one for each group.
        anneal_strategy: "cos" or "linear".

    Source: Izmailov et al. (2018), arXiv:1803.05407, with the transition that PyTorch adds.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | Sequence[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
    ) -> None:
        if anneal_strategy not in ("cos", "linear") or anneal_epochs < 0:
            raise OptionError('SWALR: anneal_strategy must be "cos" or "linear", and anneal_epochs not negative')
        self.swa_lrs = for_each("swa_lr", swa_lr, len(optimizer.param_groups))
        self.anneal_epochs = anneal_epochs
        self.anneal_strategy = anneal_strategy
        self.lrs = [group["lr"] for group in optimizer.param_groups]  # where another schedule has left them
        super().__init__(optimizer)

    def rate(self, epoch: float, base: float, number: int = 0) -> float:
        share = min(1.0, epoch / self.anneal_epochs) if self.anneal_epochs else 1.0
        if self.anneal_strategy == "cos":
            share = (1 - cos(pi * share)) / 2
        return self.swa_lrs[number] * share + self.lrs[number] * (1 - share)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "lrs": list(self.lrs)}


def update_bn(loader: Iterable[Any], model: Module) -> None:
    """Learn the running statistics of batch norms anew, with the weights of now, from the batches of `loader`.

    A batch is an input, or a tuple or list that begins with one.
    """
    layers: list[Any] = [module for _, module in model.named_modules() if hasattr(module, "reset_running_stats")]
    if not layers:
        return
    momenta, was_training = [layer.momentum for layer in layers], model.training
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None
    model.train()
    with no_grad():
        for batch in loader:
            model(asarray(batch[0] if isinstance(batch, tuple | list) else batch))
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    model.train(was_training)
