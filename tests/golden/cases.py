"""What the golden files hold, as data: the tests and `make_golden.py` run the same cases."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.golden.patterns import Array, chirp

# ---- optimisers: name -> (class, arguments). Twenty steps from chirp((3, 5)) with gradients that change sign and size.
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
    "adamax": ("Adamax", {"lr": 0.02, "weight_decay": 0.1}),
    "nadam": ("NAdam", {"lr": 0.02}),
    "nadam all": (
        "NAdam",
        {"lr": 0.02, "betas": (0.8, 0.95), "weight_decay": 0.1, "momentum_decay": 0.1, "decoupled_weight_decay": True},
    ),
    "radam": ("RAdam", {"lr": 0.02}),
    "radam all": ("RAdam", {"lr": 0.02, "betas": (0.8, 0.9), "weight_decay": 0.1, "decoupled_weight_decay": True}),
    "adadelta": ("Adadelta", {"lr": 0.5, "rho": 0.8, "weight_decay": 0.05}),
    "asgd": ("ASGD", {"lr": 0.05, "lambd": 0.1, "t0": 5, "weight_decay": 0.05}),
    "rprop": ("Rprop", {"lr": 0.05, "etas": (0.6, 1.3), "step_sizes": (0.03, 0.2)}),
    "sgd maximize": ("SGD", {"lr": 0.1, "momentum": 0.5, "weight_decay": 0.1, "maximize": True}),
    "adam maximize": ("Adam", {"lr": 0.02, "maximize": True, "decoupled_weight_decay": True, "weight_decay": 0.2}),
    "adafactor": ("Adafactor", {"lr": 0.05, "eps": (1e-6, 1e-3)}),
    "adafactor all": (
        "Adafactor",
        {"lr": 0.2, "beta2_decay": -0.5, "eps": (1e-3, 0.1), "d": 2.0, "weight_decay": 0.1, "maximize": True},
    ),
    "adagrad all": ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.2}),
}
STEP_COUNT = 20


def start() -> Array:
    return chirp((3, 5), 1.0, 0.1)


def gradient(step: int) -> Array:
    return chirp((3, 5), 0.5 + 0.3 * step, 0.4 + 1.9 * step)


# ---- L-BFGS: name -> arguments. Twenty calls of `step` from `start` in `valley`.
LBFGS: dict[str, dict[str, Any]] = {
    "lbfgs": {"lr": 0.02, "max_iter": 1},
    "lbfgs of some": {"lr": 0.05, "max_iter": 3, "history_size": 3},
    "lbfgs searching": {"max_iter": 1, "history_size": 4, "line_search_fn": "strong_wolfe"},
    "lbfgs searching more": {"max_iter": 4, "line_search_fn": "strong_wolfe"},
}


def valley(x: Any) -> Any:
    """Rosenbrock's function along the rows, flatter."""
    return (4 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2).sum()


# ---- schedules: name -> (class, arguments). The rates of twelve epochs from 0.5.
SCHEDULES: dict[str, tuple[str, dict[str, Any]]] = {
    "step": ("StepLR", {"step_size": 3, "gamma": 0.5}),
    "exponential": ("ExponentialLR", {"gamma": 0.9}),
    "cosine": ("CosineAnnealingLR", {"T_max": 8, "eta_min": 0.01}),
    "multi step": ("MultiStepLR", {"milestones": [2, 5, 5, 9], "gamma": 0.5}),
    "constant": ("ConstantLR", {"factor": 0.3, "total_iters": 4}),
    "linear": ("LinearLR", {"start_factor": 0.2, "end_factor": 0.9, "total_iters": 6}),
    "polynomial": ("PolynomialLR", {"total_iters": 9, "power": 1.7}),
    "lambda": ("LambdaLR", {"lr_lambda": lambda epoch: 1 / (1 + 0.3 * epoch)}),
    "multiplicative": ("MultiplicativeLR", {"lr_lambda": lambda epoch: 1 - 0.05 * epoch}),
    "warm restarts": ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 0.02}),
    "warm restarts alike": ("CosineAnnealingWarmRestarts", {"T_0": 4}),
    "one cycle": ("OneCycleLR", {"max_lr": 0.8, "total_steps": 12, "cycle_momentum": False}),
    "one cycle of three": (
        "OneCycleLR",
        {
            "max_lr": 0.8, "epochs": 3, "steps_per_epoch": 5, "three_phase": True, "anneal_strategy": "linear",
            "cycle_momentum": False,
        },
    ),
    "cyclic": ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.7, "step_size_up": 3, "cycle_momentum": False}),
    "cyclic halves": (
        "CyclicLR",
        {
            "base_lr": 0.1, "max_lr": 0.7, "step_size_up": 2, "step_size_down": 3, "mode": "triangular2",
            "cycle_momentum": False,
        },
    ),
    "cyclic shrinking": (
        "CyclicLR",
        {
            "base_lr": 0.1, "max_lr": 0.7, "step_size_up": 4, "mode": "exp_range", "gamma": 0.9,
            "cycle_momentum": False,
        },
    ),
}  # fmt: skip

# Compositions: a function of the module of schedules and an optimiser.
COMPOSITIONS: dict[str, Any] = {
    "swa cos": lambda s, o: s.SWALR(o, 0.05, anneal_epochs=6),
    "swa linear": lambda s, o: s.SWALR(o, [0.9], anneal_epochs=4, anneal_strategy="linear"),
    "swa at once": lambda s, o: s.SWALR(o, 0.05, anneal_epochs=0),
    "sequential": lambda s, o: s.SequentialLR(
        o,
        [s.LinearLR(o, 0.25, total_iters=4), s.ExponentialLR(o, 0.8), s.CosineAnnealingLR(o, 6)],
        milestones=[4, 7],
    ),
    "chained": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.2, 4), s.ExponentialLR(o, 0.9)]),
}
PLATEAU = {"factor": 0.5, "patience": 1, "cooldown": 1, "min_lr": 0.03, "threshold": 0.05}
PLATEAU_VALUES = [1.0, 0.97, 0.96, 0.9, 0.91, 0.92, 0.93, 0.94, 0.7, 0.71, 0.72, 0.73]

# Schedules that change a momentum, over steps of an optimiser: name -> (optimiser, schedule).
CYCLES: dict[str, tuple[str, str]] = {
    "one cycle of sgd": ("sgd momentum", "one cycle"),
    "one cycle of plain sgd": ("sgd", "one cycle"),
    "one cycle of adam": ("adam", "one cycle of three"),
    "cyclic rmsprop": ("rmsprop all", "cyclic"),
}
CYCLE_STEPS = 12

# Two groups: what the second one has of its own.
GROUPS: dict[str, tuple[str, dict[str, Any]]] = {
    "groups of sgd": ("sgd momentum", {"lr": 0.02, "momentum": 0.5, "weight_decay": 0.3}),
    "groups of adam": ("adam amsgrad", {"betas": (0.9, 0.99), "eps": 1e-3}),
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

# ---- more losses: name -> (function, inputs that are differentiated, other inputs, arguments)
_SIGN = np.array([1, -1, -1, 1], np.float32)
_SIGNS = np.where(_X * _Y > 0.1, np.float32(1), np.float32(-1))
_INNER = _UNIT * np.float32(0.9) + np.float32(0.05)
_COUNTS = np.array([[0, 1, 2], [3, 5, 0], [1, 1, 4], [2, 0, 7]], np.float32)
_IMAGE, _POINTS = chirp((2, 2, 4, 5), 1.0, 0.3), chirp((2, 3, 3, 2), 1.3, 0.8)
_MANY = np.array([[3, 0, -1, 1], [-1, 1, 2, 0], [0, 1, 2, 3], [2, -1, -1, -1], [1, 1, 0, -1]], np.int32)
_STEPS = chirp((9, 3, 5), 2.0, 0.4)  # before log_softmax
_CTC = (
    np.array([[1, 2, 2, 3], [4, 1, 0, 0], [3, 3, 1, 0]], np.int32),
    np.array([9, 6, 8], np.int32),
    np.array([4, 2, 3], np.int32),
)

LOSSES_OF_MANY: dict[str, tuple[str, tuple[Array, ...], tuple[Array, ...], dict[str, Any]]] = {
    "smooth_l1": ("smooth_l1_loss", (_X,), (_Y,), {"beta": 0.7}),
    "smooth_l1 none": ("smooth_l1_loss", (_X,), (_Y,), {"beta": 0.0, "reduction": "sum"}),
    "bce": ("binary_cross_entropy", (_INNER,), (_UNIT,), {}),
    "bce weight": ("binary_cross_entropy", (_INNER,), (_UNIT,), {"weight": _UNIT + np.float32(0.5)}),
    "poisson": ("poisson_nll_loss", (_X,), (_COUNTS,), {}),
    "poisson full": ("poisson_nll_loss", (_X,), (_COUNTS,), {"full": True}),
    "poisson rate": ("poisson_nll_loss", (_INNER,), (_COUNTS,), {"log_input": False, "reduction": "sum"}),
    "gaussian": ("gaussian_nll_loss", (_X, _Y, _INNER), (), {}),
    "gaussian full": ("gaussian_nll_loss", (_X, _Y, _INNER), (), {"full": True, "eps": 0.3, "reduction": "sum"}),
    "soft_margin": ("soft_margin_loss", (_X,), (_SIGNS,), {}),
    "multilabel_soft_margin": ("multilabel_soft_margin_loss", (_X,), (_UNIT,), {"weight": _UNIT[0]}),
    "cosine_embedding": ("cosine_embedding_loss", (_X, _Y), (_SIGN,), {"margin": 0.1}),
    "margin_ranking": ("margin_ranking_loss", (_X, _Y), (_SIGNS,), {"margin": 0.4}),
    "hinge_embedding": ("hinge_embedding_loss", (_X,), (_SIGNS,), {"margin": 0.8}),
    "triplet": ("triplet_margin_loss", (_X, _Y, _UNIT), (), {}),
    "triplet swap": ("triplet_margin_loss", (_X, _Y, _UNIT), (), {"margin": 2.0, "swap": True, "p": 1.0}),
    "triplet cubes": ("triplet_margin_loss", (_X, _Y, _UNIT), (), {"p": 3.0, "reduction": "none"}),
    "multi_margin": ("multi_margin_loss", (_LOGITS,), (_LABELS,), {"margin": 0.9}),
    "multi_margin all": ("multi_margin_loss", (_LOGITS,), (_LABELS,), {"p": 2, "weight": _FACTORS}),
    "ctc": ("ctc_loss", (_STEPS,), _CTC, {}),
    "ctc none": ("ctc_loss", (_STEPS,), _CTC, {"reduction": "none"}),
    "cosine_similarity": ("cosine_similarity", (_X, _Y), (), {}),
    "pairwise_distance": ("pairwise_distance", (_X, _Y), (), {"keepdim": True}),
    "normalize": ("normalize", (_X,), (), {"p": 2.0, "dim": 0}),
    "grid_sample": ("grid_sample", (_IMAGE, _POINTS), (), {"align_corners": False}),
    "grid_sample border": (
        "grid_sample",
        (_IMAGE, _POINTS),
        (),
        {"padding_mode": "border", "align_corners": True},
    ),
    "grid_sample reflection": (
        "grid_sample",
        (_IMAGE, _POINTS),
        (),
        {"padding_mode": "reflection", "align_corners": False},
    ),
    "grid_sample nearest": ("grid_sample", (_IMAGE,), (_POINTS,), {"mode": "nearest", "align_corners": True}),
    "grid_sample volume": (
        "grid_sample",
        (chirp((1, 2, 2, 3, 3), 1.0, 0.3), chirp((1, 1, 2, 3, 3), 1.2, 0.7)),
        (),
        {"padding_mode": "reflection", "align_corners": True},
    ),
    "affine_grid": ("affine_grid", (chirp((2, 2, 3), 1.0, 0.4),), (), {"size": (2, 1, 3, 4), "align_corners": False}),
    "affine_grid volume": (
        "affine_grid",
        (chirp((1, 3, 4), 1.0, 0.4),),
        (),
        {"size": (1, 1, 2, 3, 2), "align_corners": True},
    ),
    "pdist": ("pdist", (_X,), (), {}),
    "pdist cubes": ("pdist", (_X,), (), {"p": 3.0}),
    "mse weight": ("mse_loss", (_X,), (_Y,), {"weight": _INNER}),
    "l1 weight": ("l1_loss", (_X,), (_Y,), {"weight": _INNER}),
    "huber weight": ("huber_loss", (_X,), (_Y,), {"weight": _INNER, "delta": 0.7}),
    "multilabel_margin": ("multilabel_margin_loss", (_LOGITS,), (_MANY,), {}),
    "triplet by distance": (
        "triplet_margin_with_distance_loss",
        (_X, _Y, _UNIT),
        (),
        {"distance_function": lambda a, b: ((a - b) ** 2).sum(-1), "swap": True},
    ),
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
    "conv3d": (
        "Conv3d",
        {"in_channels": 2, "out_channels": 3, "kernel_size": (2, 3, 2), "stride": (1, 2, 1), "padding": (1, 0, 1)},
        (2, 2, 4, 5, 3),
    ),
    "conv1d reflect": (
        "Conv1d",
        {"in_channels": 2, "out_channels": 3, "kernel_size": 3, "padding": 2, "padding_mode": "reflect"},
        (2, 2, 6),
    ),
    "conv2d circular": (
        "Conv2d",
        {"in_channels": 2, "out_channels": 2, "kernel_size": (2, 3), "padding": "same", "padding_mode": "circular"},
        (1, 2, 4, 5),
    ),
    "conv2d replicate": (
        "Conv2d",
        {"in_channels": 2, "out_channels": 2, "kernel_size": 3, "padding": (1, 2), "padding_mode": "replicate"},
        (1, 2, 4, 5),
    ),
    "conv_transpose1d": (
        "ConvTranspose1d",
        {"in_channels": 4, "out_channels": 2, "kernel_size": 3, "stride": 2, "padding": 1, "groups": 2},
        (2, 4, 5),
    ),
    "conv_transpose2d dilated": (
        "ConvTranspose2d",
        {"in_channels": 2, "out_channels": 2, "kernel_size": 2, "dilation": (1, 2), "bias": False},
        (1, 2, 3, 3),
    ),
    "conv_transpose3d": (
        "ConvTranspose3d",
        {"in_channels": 2, "out_channels": 2, "kernel_size": 2, "stride": (1, 2, 1), "output_padding": (0, 1, 0)},
        (1, 2, 2, 3, 2),
    ),
    "max_pool1d": ("MaxPool1d", {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}, (2, 3, 8)),
    "max_pool2d ceil": ("MaxPool2d", {"kernel_size": 3, "stride": 2, "ceil_mode": True}, (2, 3, 6, 7)),
    "max_pool2d dilated": ("MaxPool2d", {"kernel_size": 2, "stride": 1, "dilation": 2}, (1, 2, 5, 6)),
    "max_pool3d": ("MaxPool3d", {"kernel_size": 2, "stride": (1, 2, 2)}, (1, 2, 3, 4, 5)),
    "avg_pool1d": ("AvgPool1d", {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False}, (2, 3, 8)),
    "avg_pool2d ceil": ("AvgPool2d", {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}, (1, 2, 6, 8)),
    "avg_pool2d divisor": ("AvgPool2d", {"kernel_size": 2, "divisor_override": 3}, (1, 2, 4, 6)),
    "avg_pool3d": ("AvgPool3d", {"kernel_size": 2, "ceil_mode": True, "count_include_pad": False}, (1, 2, 3, 4, 5)),
    "lp_pool1d": ("LPPool1d", {"norm_type": 2, "kernel_size": 3, "stride": 2, "ceil_mode": True}, (2, 3, 8)),
    "lp_pool2d": ("LPPool2d", {"norm_type": 4.0, "kernel_size": (2, 3)}, (2, 3, 6, 7)),
    "lp_pool3d": ("LPPool3d", {"norm_type": 2, "kernel_size": 2}, (1, 2, 3, 4, 5)),
    "adaptive_avg_pool1d": ("AdaptiveAvgPool1d", {"output_size": 3}, (2, 3, 7)),
    "adaptive_avg_pool2d": ("AdaptiveAvgPool2d", {"output_size": (3, None)}, (2, 3, 7, 5)),
    "adaptive_avg_pool2d even": ("AdaptiveAvgPool2d", {"output_size": 1}, (2, 3, 7, 5)),
    "adaptive_avg_pool3d": ("AdaptiveAvgPool3d", {"output_size": (2, 3, 1)}, (1, 2, 3, 4, 5)),
    "adaptive_max_pool1d": ("AdaptiveMaxPool1d", {"output_size": 4}, (2, 3, 7)),
    "adaptive_max_pool2d": ("AdaptiveMaxPool2d", {"output_size": (3, 2)}, (2, 3, 7, 5)),
    "adaptive_max_pool2d even": ("AdaptiveMaxPool2d", {"output_size": (2, 3)}, (2, 3, 4, 6)),
    "adaptive_max_pool3d": ("AdaptiveMaxPool3d", {"output_size": (2, 3, 1)}, (1, 2, 3, 4, 5)),
    "batch_norm2d mean of all": ("BatchNorm2d", {"num_features": 3, "momentum": None}, (4, 3, 2, 3)),
    "batch_norm2d no bias": ("BatchNorm2d", {"num_features": 3, "bias": False}, (4, 3, 2, 3)),
    "group_norm no bias": ("GroupNorm", {"num_groups": 2, "num_channels": 4, "bias": False}, (2, 4, 3)),
    "local_response_norm": ("LocalResponseNorm", {"size": 3, "alpha": 0.5, "k": 0.7}, (2, 5, 2, 3)),
    "local_response_norm even": ("LocalResponseNorm", {"size": 4, "beta": 0.5}, (2, 5, 3)),
    "batch_norm3d": ("BatchNorm3d", {"num_features": 2}, (2, 2, 2, 3, 2)),
    "instance_norm1d": ("InstanceNorm1d", {"num_features": 3}, (2, 3, 5)),
    "instance_norm2d": ("InstanceNorm2d", {"num_features": 3, "affine": True}, (2, 3, 4, 3)),
    "instance_norm2d tracking": (
        "InstanceNorm2d",
        {"num_features": 3, "affine": True, "track_running_stats": True},
        (2, 3, 4, 3),
    ),
    "instance_norm3d": ("InstanceNorm3d", {"num_features": 2}, (1, 2, 2, 3, 2)),
    "hardtanh": ("Hardtanh", {"min_val": -0.5, "max_val": 0.8}, (3, 4)),
    "relu6": ("ReLU6", {}, (3, 4)),
    "hardsigmoid": ("Hardsigmoid", {}, (3, 4)),
    "hardswish": ("Hardswish", {}, (3, 4)),
    "softsign": ("Softsign", {}, (3, 4)),
    "softshrink": ("Softshrink", {"lambd": 0.4}, (3, 4)),
    "hardshrink": ("Hardshrink", {"lambd": 0.4}, (3, 4)),
    "tanhshrink": ("Tanhshrink", {}, (3, 4)),
    "mish": ("Mish", {}, (3, 4)),
    "celu": ("CELU", {"alpha": 0.6}, (3, 4)),
    "selu": ("SELU", {}, (3, 4)),
    "prelu": ("PReLU", {}, (3, 4)),
    "prelu channels": ("PReLU", {"num_parameters": 4, "init": 0.1}, (2, 4, 3)),
    "glu": ("GLU", {"dim": 1}, (3, 4, 2)),
    "log_sigmoid": ("LogSigmoid", {}, (3, 4)),
    "softmin": ("Softmin", {"dim": 1}, (3, 4)),
    "softmax2d": ("Softmax2d", {}, (2, 3, 2, 2)),
    "threshold": ("Threshold", {"threshold": 0.1, "value": -3.0}, (3, 4)),
    "softplus beta": ("Softplus", {"beta": 2.0, "threshold": 1.5}, (3, 4)),
    "unflatten": ("Unflatten", {"dim": 1, "unflattened_size": (2, 3)}, (2, 6)),
    "zero_pad2d": ("ZeroPad2d", {"padding": (1, 0, 2, 1)}, (1, 2, 3, 4)),
    "constant_pad1d": ("ConstantPad1d", {"padding": 2, "value": 1.5}, (2, 3, 4)),
    "reflection_pad2d": ("ReflectionPad2d", {"padding": (1, 2, 2, 0)}, (1, 2, 3, 4)),
    "reflection_pad1d": ("ReflectionPad1d", {"padding": 3}, (1, 2, 4)),
    "replication_pad2d": ("ReplicationPad2d", {"padding": (1, 2, 2, 0)}, (1, 2, 3, 4)),
    "replication_pad3d": ("ReplicationPad3d", {"padding": 1}, (1, 2, 2, 3, 2)),
    "circular_pad2d": ("CircularPad2d", {"padding": (1, 2, 2, 0)}, (1, 2, 3, 4)),
    "pixel_shuffle": ("PixelShuffle", {"upscale_factor": 2}, (2, 8, 2, 3)),
    "pixel_unshuffle": ("PixelUnshuffle", {"downscale_factor": 2}, (2, 2, 4, 6)),
    "channel_shuffle": ("ChannelShuffle", {"groups": 3}, (2, 6, 2, 2)),
    "unfold": ("Unfold", {"kernel_size": (2, 3)}, (2, 3, 4, 5)),
    "unfold strided": (
        "Unfold",
        {"kernel_size": 3, "dilation": (1, 2), "padding": (1, 2), "stride": (2, 1)},
        (1, 2, 5, 6),
    ),
    "fold": ("Fold", {"output_size": (4, 5), "kernel_size": (2, 3)}, (2, 18, 9)),
    "fold strided": (
        "Fold",
        {"output_size": (5, 6), "kernel_size": 3, "dilation": (1, 2), "padding": (1, 2), "stride": (2, 1)},
        (1, 18, 18),
    ),
    "upsample": ("Upsample", {"scale_factor": 2}, (1, 2, 3, 4)),
    "upsample nearest size": ("Upsample", {"size": (5, 3)}, (1, 2, 3, 4)),
    "upsample exact": ("Upsample", {"size": (5, 3), "mode": "nearest-exact"}, (1, 2, 3, 4)),
    "upsample linear": ("Upsample", {"scale_factor": 2.5, "mode": "linear"}, (1, 2, 5)),
    "upsample bilinear": ("Upsample", {"size": (7, 3), "mode": "bilinear"}, (1, 2, 4, 5)),
    "upsample bilinear corners": (
        "Upsample",
        {"scale_factor": (2.0, 1.5), "mode": "bilinear", "align_corners": True},
        (1, 2, 4, 5),
    ),
    "upsample bicubic": ("Upsample", {"size": (7, 3), "mode": "bicubic"}, (1, 2, 4, 5)),
    "upsample bicubic corners": (
        "Upsample",
        {"size": (7, 9), "mode": "bicubic", "align_corners": True},
        (1, 2, 4, 5),
    ),
    "upsample trilinear": ("Upsample", {"scale_factor": 2, "mode": "trilinear"}, (1, 1, 2, 3, 2)),
}

# ---- layers of several inputs: name -> (class, arguments, inputs, arguments of the call). A tuple is a chirp's shape.
_CAUSAL = np.triu(np.ones((4, 4), bool), 1)
_PADDING = np.array([[False, False, False, True, True], [False] * 5, [False, True, False, False, True]])
_ADDED = chirp((4, 5), 0.7, 0.6)
_PLACES = np.array([[[1, 2, 5], [0, 3, 4]]], np.int32)
_HEADS = {"embed_dim": 6, "num_heads": 2}
_BLOCK = {"d_model": 6, "nhead": 2, "dim_feedforward": 8, "dropout": 0.0}
_ENCODER = ("TransformerEncoderLayer", _BLOCK)

SEQUENCES: dict[str, tuple[str, dict[str, Any], tuple[Any, ...], dict[str, Any]]] = {
    "rnn": ("RNN", {"input_size": 3, "hidden_size": 4}, ((5, 2, 3),), {}),
    "rnn relu": (
        "RNN",
        {"input_size": 3, "hidden_size": 4, "nonlinearity": "relu", "num_layers": 2, "bias": False},
        ((5, 2, 3), (2, 2, 4)),
        {},
    ),
    "rnn unbatched": ("RNN", {"input_size": 3, "hidden_size": 4}, ((5, 3),), {}),
    "gru": ("GRU", {"input_size": 3, "hidden_size": 4}, ((5, 2, 3),), {}),
    "gru both ways": (
        "GRU",
        {"input_size": 3, "hidden_size": 4, "num_layers": 2, "bidirectional": True, "batch_first": True},
        ((2, 5, 3), (4, 2, 4)),
        {},
    ),
    "lstm": ("LSTM", {"input_size": 3, "hidden_size": 4}, ((5, 2, 3),), {}),
    "lstm both ways": (
        "LSTM",
        {"input_size": 3, "hidden_size": 4, "num_layers": 2, "bidirectional": True, "batch_first": True},
        ((2, 5, 3), [(4, 2, 4), (4, 2, 4)]),
        {},
    ),
    "lstm projected": (
        "LSTM",
        {"input_size": 3, "hidden_size": 4, "num_layers": 2, "proj_size": 2},
        ((5, 2, 3), [(2, 2, 2), (2, 2, 4)]),
        {},
    ),
    "rnn_cell": ("RNNCell", {"input_size": 3, "hidden_size": 4}, ((2, 3), (2, 4)), {}),
    "gru_cell": ("GRUCell", {"input_size": 3, "hidden_size": 4}, ((2, 3), (2, 4)), {}),
    "lstm_cell": ("LSTMCell", {"input_size": 3, "hidden_size": 4, "bias": False}, ((2, 3),), {}),
    "attention": ("MultiheadAttention", _HEADS, ((4, 3, 6), (5, 3, 6), (5, 3, 6)), {}),
    "attention batch first": (
        "MultiheadAttention",
        {**_HEADS, "batch_first": True, "bias": False},
        ((3, 4, 6), (3, 5, 6), (3, 5, 6)),
        {"key_padding_mask": _PADDING, "average_attn_weights": False},
    ),
    "attention other sizes": (
        "MultiheadAttention",
        {**_HEADS, "kdim": 3, "vdim": 5},
        ((4, 3, 6), (5, 3, 3), (5, 3, 5)),
        {"attn_mask": _ADDED},
    ),
    "attention added": (
        "MultiheadAttention",
        {**_HEADS, "add_bias_kv": True, "add_zero_attn": True},
        ((4, 3, 6), (4, 3, 6), (4, 3, 6)),
        {"attn_mask": _CAUSAL},
    ),
    "attention unbatched": ("MultiheadAttention", _HEADS, ((4, 6), (5, 6), (5, 6)), {}),
    "encoder_layer": (*_ENCODER, ((4, 2, 6),), {}),
    "encoder_layer first": (
        "TransformerEncoderLayer",
        {**_BLOCK, "norm_first": True, "batch_first": True, "activation": "gelu"},
        ((2, 4, 6),),
        {"src_mask": _CAUSAL, "is_causal": True},
    ),
    "decoder_layer": (
        "TransformerDecoderLayer",
        _BLOCK,
        ((4, 2, 6), (5, 2, 6)),
        {"tgt_mask": _CAUSAL, "memory_key_padding_mask": _PADDING[::2]},
    ),
    "transformer": (
        "Transformer",
        {**_BLOCK, "num_encoder_layers": 2, "num_decoder_layers": 1},
        ((4, 2, 6), (4, 2, 6)),
        {"tgt_mask": _CAUSAL},
    ),
    "embedding": (
        "Embedding",
        {"num_embeddings": 5, "embedding_dim": 3, "padding_idx": 1},
        (np.array([[4, 1, 4], [0, 1, 2]], np.int32),),
        {},
    ),
    "embedding_bag": (
        "EmbeddingBag",
        {"num_embeddings": 5, "embedding_dim": 3, "padding_idx": 1},
        (np.array([[4, 1, 4], [0, 1, 2]], np.int32),),
        {},
    ),
    "embedding_bag offsets": (
        "EmbeddingBag",
        {"num_embeddings": 5, "embedding_dim": 3, "mode": "sum"},
        (np.array([4, 1, 4, 0, 1, 2], np.int32), np.array([0, 2, 2], np.int32)),
        {"per_sample_weights": chirp((6,), 1.0, 0.3)},
    ),
    "embedding_bag max": (
        "EmbeddingBag",
        {"num_embeddings": 5, "embedding_dim": 3, "mode": "max"},
        (np.array([4, 1, 4, 0, 1, 2], np.int32), np.array([0, 2, 3], np.int32)),
        {},
    ),
    "max_pool2d indices": (
        "MaxPool2d",
        {"kernel_size": 3, "stride": 2, "padding": 1, "return_indices": True},
        ((2, 3, 7, 6),),
        {},
    ),
    "max_pool1d indices": (
        "MaxPool1d",
        {"kernel_size": 2, "dilation": 2, "stride": 1, "ceil_mode": True, "return_indices": True},
        ((2, 3, 7),),
        {},
    ),
    "adaptive_max_pool2d indices": (
        "AdaptiveMaxPool2d",
        {"output_size": (3, 2), "return_indices": True},
        ((2, 3, 7, 6),),
        {},
    ),
    "max_unpool1d": ("MaxUnpool1d", {"kernel_size": 2}, ((1, 2, 3), _PLACES), {}),
    "max_unpool2d": (
        "MaxUnpool2d",
        {"kernel_size": 2},
        ((1, 2, 2, 2), np.array([[[[1, 2], [11, 13]], [[5, 7], [10, 8]]]], np.int32)),
        {"output_size": (1, 2, 4, 5)},
    ),
    "max_unpool3d": (
        "MaxUnpool3d",
        {"kernel_size": (1, 2, 1)},
        ((1, 1, 1, 1, 3), np.array([[[[[3, 1, 5]]]]], np.int32)),
        {},
    ),
    "bilinear of two": ("Bilinear", {"in1_features": 4, "in2_features": 3, "out_features": 2}, ((5, 4), (5, 3)), {}),
}

# ---- recurrent layers over sequences of different lengths: name -> (class, arguments, input shape, lengths)
PACKED: dict[str, tuple[str, dict[str, Any], tuple[int, ...], list[int]]] = {
    "packed rnn": ("RNN", {"input_size": 3, "hidden_size": 4}, (4, 3, 3), [2, 3, 1]),
    "packed gru both ways": (
        "GRU",
        {"input_size": 3, "hidden_size": 2, "bidirectional": True},
        (3, 3, 3),
        [2, 1, 3],
    ),
    "packed lstm": (
        "LSTM",
        {"input_size": 3, "hidden_size": 4, "num_layers": 2, "batch_first": True, "proj_size": 2},
        (3, 3, 3),
        [3, 1, 2],
    ),
}

# ---- parameters that are computed: name -> (class, arguments, parametrisation, its arguments, input shape).
# Twenty steps of SGD on a weighted sum of the outputs.
PARAMETRISED: dict[str, tuple[str, dict[str, Any], str, dict[str, Any], tuple[int, ...]]] = {
    "weight norm": ("Linear", {"in_features": 4, "out_features": 3}, "weight_norm", {}, (5, 4)),
    "weight norm of columns": ("Linear", {"in_features": 4, "out_features": 3}, "weight_norm", {"dim": 1}, (5, 4)),
    "weight norm of all": (
        "Conv1d",
        {"in_channels": 2, "out_channels": 3, "kernel_size": 2},
        "weight_norm",
        {"dim": None},
        (2, 2, 5),
    ),
    "spectral norm": ("Linear", {"in_features": 4, "out_features": 3}, "spectral_norm", {}, (5, 4)),
    "spectral norm of a convolution": (
        "Conv2d",
        {"in_channels": 2, "out_channels": 3, "kernel_size": 2},
        "spectral_norm",
        {"n_power_iterations": 2},
        (1, 2, 3, 4),
    ),
    "spectral norm transposed": (
        "ConvTranspose1d",
        {"in_channels": 2, "out_channels": 3, "kernel_size": 2},
        "spectral_norm",
        {},
        (1, 2, 3),
    ),
}

# ---- what has a state: one of each layer, as attributes of one module, whose state dict PyTorch has written to a file.
STATEFUL: dict[str, tuple[str, dict[str, Any]]] = {
    name.replace(" ", "_"): (kind, arguments)
    for name, (kind, arguments, *_) in (LAYERS | SEQUENCES).items()
    if kind.rstrip("123d")
    in {
        "Linear", "Bilinear", "Conv", "ConvTranspose", "LayerNorm", "GroupNorm", "RMSNorm", "BatchNorm",
        "InstanceNorm", "PReLU", "RNN", "GRU", "LSTM", "RNNCell", "GRUCell", "LSTMCell", "MultiheadAttention",
        "TransformerEncoderLayer", "TransformerDecoderLayer", "Transformer", "Embedding", "EmbeddingBag",
    }
}  # fmt: skip


def sequence_inputs(name: str) -> list[Any]:
    """The inputs of one of `SEQUENCES`, a chirp in place of each shape; a list of shapes is a tuple of arrays."""
    phases = iter(range(9))

    def drawn(given: Any) -> Any:
        if isinstance(given, list):
            return tuple(drawn(shape) for shape in given)
        return chirp(given, 1.1, 0.2 + next(phases)) if isinstance(given, tuple) else given

    return [drawn(given) for given in SEQUENCES[name][2]]


def flat(values: Any) -> list[Any]:
    """The tensors in nested tuples, without None."""
    if isinstance(values, tuple | list):
        return [x for value in values for x in flat(value)]
    return [] if values is None else [values]


def batch(name: str, step: int) -> tuple[Array, Array]:
    """What step number `step` of one of `both.TRAININGS` sees."""
    if name == "convolutions":
        return chirp((5, 2, 8, 8), 1.0, 0.3 + step), (np.arange(5) * (step + 1) % 3).astype(np.int32)
    if name == "transformer":
        return chirp((3, 4, 8), 1.0, 0.3 + step), chirp((3, 4, 2), 1.0, 0.5 + step)
    tokens = (np.arange(21) ** 2 + step).reshape(3, 7) % 7
    return tokens[:, :-1].astype(np.int32), tokens[:, 1:].astype(np.int32)


# ---- layers trained by themselves
LAYER_RATE = 0.02  # at 0.05 a recurrence's loss rises again, and float32 strays from float64, PyTorch's by 8e-5
TRAINED_LAYERS = [*LAYERS, *SEQUENCES]


def trained(name: str) -> tuple[str, dict[str, Any], list[Any], dict[str, Any]]:
    """Kind, arguments, inputs and options of the call of a layer that is trained by itself."""
    if name in SEQUENCES:
        kind, arguments, _, call = SEQUENCES[name]
        return kind, arguments, list(sequence_inputs(name)), call
    kind, arguments, shape = LAYERS[name]
    return kind, arguments, [chirp(shape, 1.3, 0.2)] * (2 if kind == "Bilinear" else 1), {}
