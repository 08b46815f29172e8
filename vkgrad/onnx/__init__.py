"""ONNX files: `export` writes a function or module as one, `load` makes a module of one. Needs the extra `onnx`.

`export` records the graph of primitives and writes it node by node; convolutions, pooling, products of matrices and
softmax, which are several primitives each, are recognised and written as the one operator they are.
"""

from vkgrad.errors import UnsupportedError

try:
    import onnx
except ImportError as error:
    raise UnsupportedError("vkgrad.onnx needs the package onnx: run `pip install vkgrad[onnx]`") from error

from vkgrad.onnx.exporting import export
from vkgrad.onnx.loading import Loaded, load

__all__ = ["Loaded", "export", "load"]
