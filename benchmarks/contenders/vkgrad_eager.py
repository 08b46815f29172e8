"""vkgrad without `vg.jit`: the graph is built and flushed anew at every step."""

from benchmarks.contenders.contender import serve
from vkgrad.bench.training import VkgradEager

if __name__ == "__main__":
    serve(VkgradEager)
