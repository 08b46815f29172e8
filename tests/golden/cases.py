"""What the golden files hold, as data: the tests and `make_golden.py` run the same cases."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.golden.patterns import Array, chirp

# ---- optimisers: name -> (class, arguments). Six steps from chirp((3, 5)) with gradients that change sign and size.
OPTIMISERS: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {"lr": 0.1}),
    "sgd weight_decay": ("SGD", {"lr": 0.1, "weight_decay": 0.05}),
    "sgd momentum": ("SGD", {"lr": 0.1, "momentum": 0.9}),
    "sgd dampening": ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.02}),
    "sgd nesterov": ("SGD", {"lr": 0.1, "momentum": 0.8, "nesterov": True, "weight_decay": 0.02}),
    "adam": ("Adam", {"lr": 0.02}),
    "adam weight_decay": ("Adam", {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}),
    "adam amsgrad": ("Adam", {"lr": 0.02, "betas": (0.8, 0.7), "amsgrad": True}),
    "adamw": ("AdamW", {"lr": 0.02, "weight_decay": 0.2}),
    "rmsprop": ("RMSprop", {"lr": 0.02}),
    "rmsprop all": ("RMSprop", {"lr": 0.02, "alpha": 0.9, "momentum": 0.5, "centered": True, "weight_decay": 0.1}),
    "adagrad": ("Adagrad", {"lr": 0.1}),
    "adagrad all": ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.2}),
}
STEP_COUNT = 6


def start() -> Array:
    return chirp((3, 5), 1.0, 0.1)


def gradient(step: int) -> Array:
    return chirp((3, 5), 0.5 + 0.3 * step, 0.4 + 1.9 * step)


# ---- schedules: name -> (class, arguments). The rates of twelve epochs from 0.5.
SCHEDULES: dict[str, tuple[str, dict[str, Any]]] = {
    "step": ("StepLR", {"step_size": 3, "gamma": 0.5}),
    "exponential": ("ExponentialLR", {"gamma": 0.9}),
    "cosine": ("CosineAnnealingLR", {"T_max": 8, "eta_min": 0.01}),
}
EPOCH_COUNT = 12

# ---- losses: name -> (function, input, target, arguments). Arrays among the arguments become tensors.
_LOGITS = chirp((5, 4), 2.0, 0.3)
_LABELS = np.array([2, 0, 3, 1, 2], np.int32)
_MAPS = chirp((2, 3, 2, 2), 2.0, 0.9)
_MAP_LABELS = np.array([[[0, 2], [1, 2]], [[2, 1], [0, 0]]], np.int32)
_FACTORS = np.array([0.5, 2.0, 1.25, 0.75], np.float32)


def _probabilities(shape: tuple[int, ...], phase: float, axis: int) -> Array:
    positive = np.exp(chirp(shape, 1.0, phase).astype(np.float64))
    return (positive / positive.sum(axis, keepdims=True)).astype(np.float32)


_SOFT = _probabilities((5, 4), 0.7, 1)
_X, _Y = chirp((4, 3), 1.5, 0.2), chirp((4, 3), 1.5, 1.2)
_UNIT = np.abs(chirp((4, 3), 1.0, 2.1))

LOSSES: dict[str, tuple[str, Array, Array, dict[str, Any]]] = {
    "cross_entropy": ("cross_entropy", _LOGITS, _LABELS, {}),
    "cross_entropy sum": ("cross_entropy", _LOGITS, _LABELS, {"reduction": "sum"}),
    "cross_entropy none": ("cross_entropy", _LOGITS, _LABELS, {"reduction": "none"}),
    "cross_entropy one row": ("cross_entropy", _LOGITS[0], np.array(3, np.int32), {}),
    "cross_entropy maps": ("cross_entropy", _MAPS, _MAP_LABELS, {}),
    "cross_entropy smoothing": ("cross_entropy", _LOGITS, _LABELS, {"label_smoothing": 0.2}),
    "cross_entropy ignore": ("cross_entropy", _LOGITS, _LABELS, {"ignore_index": 2}),
    "cross_entropy weight": ("cross_entropy", _LOGITS, _LABELS, {"weight": _FACTORS}),
    "cross_entropy all": (
        "cross_entropy",
        _LOGITS,
        np.array([2, -7, 3, 1, -7], np.int32),
        {"weight": _FACTORS, "ignore_index": -7, "label_smoothing": 0.3},
    ),
    "cross_entropy soft": ("cross_entropy", _LOGITS, _SOFT, {}),
    "cross_entropy soft all": (
        "cross_entropy",
        _LOGITS,
        _SOFT,
        {"weight": _FACTORS, "label_smoothing": 0.1, "reduction": "sum"},
    ),
    "nll": ("nll_loss", _LOGITS, _LABELS, {}),
    "nll all": ("nll_loss", _LOGITS, _LABELS, {"weight": _FACTORS, "ignore_index": 3}),
    "mse": ("mse_loss", _X, _Y, {}),
    "mse none": ("mse_loss", _X, _Y, {"reduction": "none"}),
    "l1": ("l1_loss", _X, _Y, {"reduction": "sum"}),
    "huber": ("huber_loss", _X, _Y, {"delta": 0.8}),
    "binary": ("binary_cross_entropy_with_logits", _X * 30, _UNIT, {}),
    "binary all": (
        "binary_cross_entropy_with_logits",
        _X,
        _UNIT,
        {"weight": _UNIT + np.float32(0.5), "pos_weight": np.array([0.5, 2.0, 3.0], np.float32), "reduction": "sum"},
    ),
    "kl_div": ("kl_div", _X, _UNIT, {}),
    "kl_div batchmean": ("kl_div", _X, np.where(_UNIT < 0.3, np.float32(0), _UNIT), {"reduction": "batchmean"}),
    "kl_div log_target": ("kl_div", _X, _Y, {"log_target": True}),
}

# ---- layers: name -> (class, arguments, input shape). Parameters are chirps in the order of the state dict.
LAYERS: dict[str, tuple[str, dict[str, Any], tuple[int, ...]]] = {
    "linear": ("Linear", {"in_features": 5, "out_features": 3}, (4, 5)),
    "linear no bias": ("Linear", {"in_features": 5, "out_features": 3, "bias": False}, (2, 4, 5)),
    "bilinear": ("Bilinear", {"in1_features": 4, "in2_features": 4, "out_features": 3}, (5, 4)),
    "conv1d": ("Conv1d", {"in_channels": 2, "out_channels": 3, "kernel_size": 3, "stride": 2, "padding": 1}, (2, 2, 9)),
    "conv2d": ("Conv2d", {"in_channels": 2, "out_channels": 3, "kernel_size": (3, 2)}, (2, 2, 6, 7)),
    "conv2d strided": (
        "Conv2d",
        {
            "in_channels": 2,
            "out_channels": 3,
            "kernel_size": 3,
            "stride": (2, 1),
            "padding": (0, 2),
            "dilation": (1, 2),
        },
        (2, 2, 7, 8),
    ),
    "conv2d groups": (
        "Conv2d",
        {"in_channels": 4, "out_channels": 6, "kernel_size": 2, "groups": 2, "bias": False},
        (2, 4, 4, 5),
    ),
    "conv2d same": (
        "Conv2d",
        {"in_channels": 2, "out_channels": 2, "kernel_size": (2, 3), "padding": "same"},
        (1, 2, 5, 6),
    ),
    "conv_transpose2d": (
        "ConvTranspose2d",
        {"in_channels": 3, "out_channels": 2, "kernel_size": 3, "stride": 2, "padding": 1, "output_padding": 1},
        (2, 3, 4, 5),
    ),
    "max_pool2d": ("MaxPool2d", {"kernel_size": 2}, (2, 3, 7, 6)),
    "max_pool2d overlapping": ("MaxPool2d", {"kernel_size": 3, "stride": 2, "padding": 1}, (2, 3, 7, 6)),
    "avg_pool2d": ("AvgPool2d", {"kernel_size": (2, 3)}, (2, 3, 6, 7)),
    "avg_pool2d padded": ("AvgPool2d", {"kernel_size": 3, "stride": 2, "padding": 1}, (2, 3, 7, 6)),
    "layer_norm": ("LayerNorm", {"normalized_shape": (3, 5)}, (4, 3, 5)),
    "group_norm": ("GroupNorm", {"num_groups": 2, "num_channels": 4}, (2, 4, 3, 3)),
    "rms_norm": ("RMSNorm", {"normalized_shape": (5,), "eps": 1e-5}, (4, 5)),
    "batch_norm1d": ("BatchNorm1d", {"num_features": 3}, (6, 3)),
    "batch_norm2d": ("BatchNorm2d", {"num_features": 3}, (4, 3, 2, 3)),
    "relu": ("ReLU", {}, (3, 4)),
    "leaky_relu": ("LeakyReLU", {"negative_slope": 0.1}, (3, 4)),
    "tanh": ("Tanh", {}, (3, 4)),
    "sigmoid": ("Sigmoid", {}, (3, 4)),
    "gelu": ("GELU", {}, (3, 4)),
    "gelu tanh": ("GELU", {"approximate": "tanh"}, (3, 4)),
    "silu": ("SiLU", {}, (3, 4)),
    "softplus": ("Softplus", {}, (3, 4)),
    "elu": ("ELU", {"alpha": 0.7}, (3, 4)),
    "softmax": ("Softmax", {"dim": 1}, (3, 4)),
    "log_softmax": ("LogSoftmax", {"dim": 0}, (3, 4)),
    "flatten": ("Flatten", {}, (2, 3, 4)),
}
