"""vkgrad: a small deep-learning framework that trains through Vulkan.

Importing it opens no device; the first value that is needed does. Functions of tensors are here, by NumPy's names;
layers and losses in `vkgrad.nn`, then there are `vkgrad.optim` and `vkgrad.data`; `vkgrad.fit` trains in one call.

`python -m vkgrad doctor` checks that it works on this machine, `python -m vkgrad info` lists devices and switches.
"""

from types import ModuleType as _Module
from typing import TYPE_CHECKING

from vkgrad import einops_backend, functions, indexing, nn, optim, random, tree, updates
from vkgrad.array_api import *
from vkgrad.checkpointing import checkpoint
from vkgrad.counters import counting, stats
from vkgrad.custom_kernels import Geometry, custom_kernel
from vkgrad.custom_rules import custom_vjp, stop_gradient
from vkgrad.elsewhere import FUNCTIONS
from vkgrad.execution import default_device, devices, flush, host_policy, host_rules, plan, set_device, synchronize
from vkgrad.functional import grad, hessian, hvp, jacobian, jvp, linearize, value_and_grad, vjp
from vkgrad.functions.activations import *
from vkgrad.functions.adaptive_pooling import *
from vkgrad.functions.comparing import *
from vkgrad.functions.convolution import *
from vkgrad.functions.creation import *
from vkgrad.functions.differences import *
from vkgrad.functions.elementwise import *
from vkgrad.functions.everyday import *
from vkgrad.functions.joining import *
from vkgrad.functions.linear import *
from vkgrad.functions.lookup import *
from vkgrad.functions.matrices import *
from vkgrad.functions.nans import *
from vkgrad.functions.pooling import *
from vkgrad.functions.reductions import *
from vkgrad.functions.resampling import *
from vkgrad.functions.scans import *
from vkgrad.functions.shapes import *
from vkgrad.functions.sorting import *
from vkgrad.functions.statistics import *
from vkgrad.functions.types import *
from vkgrad.functions.unpooling import *
from vkgrad.functions.warping import *
from vkgrad.history import no_grad
from vkgrad.ir.dtypes import (
    NO_COMPLEX,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from vkgrad.jit import jit
from vkgrad.looping import scan
from vkgrad.mapping import vmap
from vkgrad.precision import autocast
from vkgrad.profile import profile
from vkgrad.random import manual_seed
from vkgrad.spelling import unknown
from vkgrad.tensor import Tensor, asarray, eval, from_dlpack, tensor

bool = bool_  # the array API standard's name

if TYPE_CHECKING:
    from vkgrad import data, distributions, errors, fft, inference, linalg, metrics, onnx, sklearn, testing, viz
    from vkgrad.anomalies import detect_anomaly
    from vkgrad.fitting import EarlyStopping, TensorBoard, fit
    from vkgrad.reporting import report
    from vkgrad.resuming import load_checkpoint, save_checkpoint
    from vkgrad.serialization import load, load_metadata, save
    from vkgrad.viz import to_networkx
else:
    # What many programs do without, and where it is: imported at its first use.
    _LATER = {
        "data": "data",
        "detect_anomaly": "anomalies",
        "distributions": "distributions",
        "errors": "errors",
        "fft": "fft",
        "inference": "inference",
        "linalg": "linalg",
        "metrics": "metrics",
        "onnx": "onnx",
        "sklearn": "sklearn",
        "fit": "fitting",
        "EarlyStopping": "fitting",
        "TensorBoard": "fitting",
        "testing": "testing",
        "viz": "viz",
        "report": "reporting",
        "to_networkx": "viz",  # networkx takes longer than all the rest
        "load": "serialization",
        "load_checkpoint": "resuming",
        "load_metadata": "serialization",
        "save_checkpoint": "resuming",
        "save": "serialization",
    }

    def __getattr__(name: str) -> object:
        if name in ("complex64", "complex128"):
            raise AttributeError(f"no {name}: {NO_COMPLEX}")
        if name == "__version__":
            from importlib.metadata import version

            return version("vkgrad")
        if name not in _LATER:
            raise unknown("vkgrad", name, __dir__, FUNCTIONS)
        from importlib import import_module

        module = import_module(f"vkgrad.{_LATER[name]}")
        found = module if name == _LATER[name] else getattr(module, name)
        globals()[name] = found
        return found

    _USED = (*_LATER, "errors", "nn", "optim", "random", "tree")  # other modules are what the package is made of

    def __dir__() -> list[str]:
        inside = {name for name, value in globals().items() if isinstance(value, _Module)} - {*_USED}
        return sorted({*globals(), *_USED, "__version__"} - inside - {"NO_COMPLEX", "TYPE_CHECKING"})
