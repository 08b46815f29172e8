"""The schedules under PyTorch's module name."""

from vkgrad.optim.compositions import ChainedScheduler, ReduceLROnPlateau, SequentialLR
from vkgrad.optim.cycles import CyclicLR, OneCycleLR
from vkgrad.optim.schedules import (
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    Schedule,
    StepLR,
)

LRScheduler = Schedule  # PyTorch's name

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]
