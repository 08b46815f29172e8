"""vkgrad with the step recorded by `vg.jit`."""

from __future__ import annotations

import vkgrad as vg
from benchmarks import cases
from benchmarks.contenders.contender import serve
from benchmarks.contenders.vkgrad_models import VkgradContender


class VkgradJit(VkgradContender):
    def __init__(self, case: cases.Case, data: cases.Data) -> None:
        super().__init__(case, data)
        self.fed_step = vg.jit(self.training.step)
        # The resident batch is a tensor from outside, read in place: as an argument it would be copied at each call.
        self.resident_step = vg.jit(lambda: self.training.step(self.images, self.labels))

    def step(self) -> None:
        self.last = self.resident_step()

    def feed(self, number: int) -> None:
        self.last = self.fed_step(*self.batches[number])


if __name__ == "__main__":
    serve(VkgradJit)
