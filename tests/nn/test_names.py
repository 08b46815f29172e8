"""PyTorch's lists of names and arguments (frozen in `names.json`) against vkgrad's: what is absent or different is said
here with its reason, and nowhere is more said than is so."""

from __future__ import annotations

import ast
import inspect
import json
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

import vkgrad as vg
from tests.golden import cases

NAMES: dict[str, dict[str, str]] = json.loads(Path(cases.__file__).with_name("names.json").read_text())
NETWORKS = Path(__file__).parents[2] / "docs" / "networks.md"

# What users of PyTorch may look for and do not find. The first list is in docs/networks.md too.
ABSENT = {
    "nn": "AdaptiveLogSoftmaxWithLoss FractionalMaxPool2d FractionalMaxPool3d LinearCrossEntropyLoss SyncBatchNorm",
    "nn.functional": "fractional_max_pool2d fractional_max_pool3d linear_cross_entropy multi_head_attention_forward",
    "nn.utils.parametrizations": "orthogonal",
    "optim": "SparseAdam",
}
# In-place spellings, what serves PyTorch itself, what is deprecated there, and what needs its devices or files.
NEVER = {
    "nn": "Buffer Container CrossMapLRN2d DataParallel LinearCrossEntropyOptions NLLLoss2d RNNBase RNNCellBase "
    "UninitializedBuffer UninitializedParameter factory_kwargs",
    "nn.functional": "ScalingType SwizzleType adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices "
    "adaptive_max_pool3d_with_indices assert_int_or_pair boolean_dispatch celu_ conv_tbc elu_ "
    "fractional_max_pool2d_with_indices fractional_max_pool3d_with_indices grouped_mm handle_torch_function hardtanh_ "
    "has_torch_function has_torch_function_unary has_torch_function_variadic leaky_relu_ max_pool1d_with_indices "
    "max_pool2d_with_indices max_pool3d_with_indices native_channel_shuffle relu_ rrelu_ scaled_grouped_mm scaled_mm "
    "selu_ threshold_ upsample upsample_bilinear upsample_nearest",
    "nn.init": "constant dirac eye orthogonal sparse",
    "nn.utils": "clip_grad_norm convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format "
    "fuse_conv_bn_weights fuse_linear_bn_weights remove_spectral_norm remove_weight_norm skip_init spectral_norm "
    "weight_norm",
    "nn.utils.parametrize": "cached transfer_parametrizations_and_params type_before_parametrizations",
    "nn.utils.rnn": "invert_permutation",
    "optim": "swap_in_optimizer_params_and_state",
}

# Arguments that are about PyTorch's memory, kernels and history, wherever they are.
NO_MATTER = {
    "_stacklevel", "capturable", "device", "differentiable", "dtype", "foreach", "fused", "generator", "inplace",
    "input", "last_epoch", "out", "reduce", "size_average",
}  # fmt: skip
# Others: argument -> where it differs, and why.
DIFFERENT = {
    "ignore_index": ("CrossEntropyLoss NLLLoss cross_entropy nll_loss", "None: ignoring costs a count of the labels"),
    "dim": ("Softmax LogSoftmax Softmin softmax log_softmax softmin", "no choice by the number of axes"),
    "activation": ("Transformer TransformerDecoderLayer TransformerEncoderLayer", "the name of the function"),
    "antialias": ("interpolate", "not there"),
    "mask_check": ("TransformerEncoder", "masks are values"),
    "max_norm": ("embedding embedding_bag", "changes the weight; the layer says what to do instead"),
    "norm_type": ("embedding embedding_bag", "goes with max_norm"),
    "scale_grad_by_freq": ("embedding embedding_bag", "the layer says what to do instead"),
    "sparse": ("embedding embedding_bag", "gradients are dense"),
    "include_last_offset": ("embedding_bag", "of the layer only"),
    "min_value": ("Hardtanh", "deprecated"),
    "max_value": ("Hardtanh", "deprecated"),
    "_freeze": ("Embedding", "freeze()"),
    "_weight": ("EmbeddingBag", "from_pretrained"),
    "custom_encoder": ("Transformer", "compose the parts"),
    "custom_decoder": ("Transformer", "compose the parts"),
    "modules": ("ModuleDict", "its first argument has another name"),
    "parameters": ("ParameterDict", "its first argument has another name"),
    "data": ("PackedSequence Parameter", "what is packed stays padded; a parameter is a tensor"),
    "batch_sizes": ("PackedSequence", "what is packed stays padded"),
    "sorted_indices": ("PackedSequence", "what is packed stays padded"),
    "unsorted_indices": ("PackedSequence", "what is packed stays padded"),
    "unsafe": ("ParametrizationList", "of register_parametrization only"),
    "defaults": ("Optimizer", "options are attributes"),
    "value": ("pad", "0 where PyTorch writes None for it"),
}  # fmt: skip


def _space(name: str) -> Any:
    return reduce(getattr, name.split("."), vg)


def _theirs(text: str) -> dict[str, str | None]:
    """Arguments and the source of their defaults, from how they are written."""
    found: dict[str, str | None] = {}
    for part in _parts(text):
        name, _, default = part.partition("=")
        found[name] = default or None
    return found


def _parts(text: str) -> list[str]:
    """The text divided at the commas that are in no brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _same(theirs: str | None, parameter: inspect.Parameter) -> bool:
    if theirs is None:
        return parameter.default is parameter.empty
    try:
        return ast.literal_eval(theirs) == parameter.default and parameter.default is not parameter.empty
    except (ValueError, SyntaxError):
        return theirs == getattr(parameter.default, "__name__", None)


def differences(space: str) -> list[str]:
    """What is absent, and which arguments have another name, place or default; as 'name' and 'name(argument)'."""
    found = []
    for name, text in NAMES[space].items():
        own = getattr(_space(space), name, None)
        if own is None:
            found.append(name)
            continue
        ours = inspect.signature(own).parameters
        theirs = {arg: default for arg, default in _theirs(text).items() if arg not in NO_MATTER}
        found += [f"{name}({arg})" for arg, d in theirs.items() if arg not in ours or not _same(d, ours[arg])]
        common = [arg for arg in ours if arg in theirs]
        found += [f"{name} in another order"] * (common != [arg for arg in theirs if arg in ours])
    return found


def expected(space: str) -> set[str]:
    absent = {name for listed in (ABSENT, NEVER) for name in listed.get(space, "").split()}
    arguments = {f"{name}({arg})" for arg, (where, _) in DIFFERENT.items() for name in where.split()}
    return absent | {entry for entry in arguments if entry.partition("(")[0] in NAMES[space]}


@pytest.mark.parametrize("space", NAMES)
def test_names_and_arguments_are_pytorchs(space: str) -> None:
    found = set(differences(space))
    assert found - expected(space) == set(), "say why, or build it"
    unneeded = expected(space) - found
    assert unneeded == set(), "it is not different any more"


def test_what_is_absent_is_said_in_the_documentation() -> None:
    text = NETWORKS.read_text(encoding="utf-8")
    assert [name for names in ABSENT.values() for name in names.split() if name not in text] == []


def test_a_difference_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Linear(vg.nn.Linear):
        def __init__(self, out_features: int, in_features: int, bias: bool = False) -> None: ...

    monkeypatch.setattr(vg.nn, "Linear", Linear)
    monkeypatch.delattr(vg.nn, "GRU")
    found = differences("nn")
    assert {"GRU", "Linear(bias)", "Linear in another order"} <= set(found)
    assert len(NAMES["nn"]) > 150 and len(NAMES["optim"]) > 12
