"""PyTorch as it is written: one kernel after another."""

from __future__ import annotations

from benchmarks.contenders.contender import serve
from benchmarks.contenders.torch_models import TorchContender

if __name__ == "__main__":
    serve(TorchContender)
