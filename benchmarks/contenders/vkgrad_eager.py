"""vkgrad without `vg.jit`: the graph is built and flushed anew at every step."""

from __future__ import annotations

from typing import Any

import vkgrad as vg
from benchmarks.contenders.contender import serve
from benchmarks.contenders.vkgrad_models import VkgradContender


class VkgradEager(VkgradContender):
    def _run(self, images: Any, labels: Any) -> None:
        self.last = self.training.step(images, labels)
        vg.eval(self.last, self.training.model)

    def step(self) -> None:
        self._run(self.images, self.labels)

    def feed(self, number: int) -> None:
        images, labels = self.batches[number]
        self._run(vg.tensor(images), vg.tensor(labels))


if __name__ == "__main__":
    serve(VkgradEager)
