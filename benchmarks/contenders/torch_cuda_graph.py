"""PyTorch with the whole step captured once as a CUDA graph, then replayed."""

from __future__ import annotations

import torch

from benchmarks.contenders.contender import Absent, serve
from benchmarks.contenders.torch_models import TorchContender
from vkgrad.bench import cases

WARM_UP_STEPS = 3  # before capture, on a stream of its own, as PyTorch asks


class TorchCudaGraph(TorchContender):
    def __init__(self, case: cases.Case, data: cases.Data) -> None:
        super().__init__(case, data)
        if not self.on_gpu:
            raise Absent("PyTorch sees no CUDA device")
        # The graph reads its batch here; the resident batch must not be overwritten by one that is fed.
        self.graph_images, self.graph_labels = self.images.clone(), self.labels.clone()
        self.holds_resident = True
        weights = [parameter.detach().clone() for parameter in self.model.parameters()]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP_STEPS):
                self.train(self.graph_images, self.graph_labels)
        torch.cuda.current_stream().wait_stream(stream)
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.train(self.graph_images, self.graph_labels)
        with torch.no_grad():  # warm-up has trained
            for parameter, weight in zip(self.model.parameters(), weights, strict=True):
                parameter.copy_(weight)
        torch.cuda.synchronize()

    def step(self) -> None:
        if not self.holds_resident:
            self.graph_images.copy_(self.images)
            self.graph_labels.copy_(self.labels)
            self.holds_resident = True
        self.graph.replay()

    def feed(self, number: int) -> None:
        images, labels = self.batches[number]
        self.graph_images.copy_(images, non_blocking=True)
        self.graph_labels.copy_(labels, non_blocking=True)
        self.holds_resident = False
        self.graph.replay()


if __name__ == "__main__":
    serve(TorchCudaGraph)
