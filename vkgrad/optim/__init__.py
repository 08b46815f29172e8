"""Optimisers, schedules of the learning rate, averages of weights, and clipping of gradients."""

from vkgrad.optim import lr_scheduler, swa_utils
from vkgrad.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam
from vkgrad.optim.adaptive import Adadelta, Adagrad, Lion, RMSprop
from vkgrad.optim.classical import ASGD, Rprop
from vkgrad.optim.clipping import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from vkgrad.optim.lbfgs import LBFGS
from vkgrad.optim.lr_scheduler import (
    ChainedScheduler,
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    CyclicLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    OneCycleLR,
    PolynomialLR,
    ReduceLROnPlateau,
    SequentialLR,
    StepLR,
)
from vkgrad.optim.matrixwise import Adafactor, Muon
from vkgrad.optim.optimizer import Optimizer
from vkgrad.optim.scaling import GradScaler
from vkgrad.optim.schedules import Schedule
from vkgrad.optim.sgd import SGD
from vkgrad.spelling import answer_misspellings

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "GradScaler",
    "LambdaLR",
    "LinearLR",
    "Lion",
    "MultiStepLR",
    "MultiplicativeLR",
    "Muon",
    "NAdam",
    "OneCycleLR",
    "Optimizer",
    "PolynomialLR",
    "RAdam",
    "RMSprop",
    "ReduceLROnPlateau",
    "Rprop",
    "Schedule",
    "SequentialLR",
    "StepLR",
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "lr_scheduler",
    "swa_utils",
]


def __dir__() -> list[str]:
    return sorted(__all__)


answer_misspellings(globals())
