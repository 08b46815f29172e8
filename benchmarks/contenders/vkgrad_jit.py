"""vkgrad with the step recorded by `vg.jit`."""

from benchmarks.contenders.contender import serve
from vkgrad.bench.training import VkgradJit

if __name__ == "__main__":
    serve(VkgradJit)
