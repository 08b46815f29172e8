"""Optimisers, schedules of the learning rate, and clipping of gradients."""

from vkgrad.optim.adaptive import Adagrad, Adam, AdamW, Lion, RMSprop
from vkgrad.optim.clipping import clip_grad_norm, clip_grad_norm_
from vkgrad.optim.optimizer import Optimizer
from vkgrad.optim.scaling import GradScaler
from vkgrad.optim.schedules import CosineAnnealingLR, ExponentialLR, Schedule, StepLR
from vkgrad.optim.sgd import SGD

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "CosineAnnealingLR",
    "ExponentialLR",
    "GradScaler",
    "Lion",
    "Optimizer",
    "RMSprop",
    "Schedule",
    "StepLR",
    "clip_grad_norm",
    "clip_grad_norm_",
]
