"""PyTorch with model and loss compiled by `torch.compile`, in its mode for small steps (CUDA graphs where it can)."""

from __future__ import annotations

import torch

from benchmarks.contenders.contender import serve
from benchmarks.contenders.torch_models import TorchContender
from vkgrad.bench import cases


class TorchCompile(TorchContender):
    def __init__(self, case: cases.Case, data: cases.Data) -> None:
        super().__init__(case, data)
        self.compiled = torch.compile(super().forward, mode="reduce-overhead")

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        torch.compiler.cudagraph_mark_step_begin()  # the loss of the step before may be overwritten
        return self.compiled(images, labels)


if __name__ == "__main__":
    serve(TorchCompile)
