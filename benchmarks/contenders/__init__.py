"""Who races. Each contender is a module that is run as a process of its own and knows nothing of the others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One contender.

    ours       it runs vkgrad, so every guard on placement and counts applies
    recorded   its steps are replayed from a recording and must make nothing new
    batches    raced at these batch sizes only; None means at all
    compiles   it takes the processor a long time to be ready, and is prepared beside the others
    """

    name: str
    module: str
    ours: bool = False
    recorded: bool = False
    batches: tuple[int, ...] | None = None
    compiles: bool = False


_FOLDER = "benchmarks.contenders"
ENTRIES = {
    entry.name: entry
    for entry in (
        Entry("vkgrad_jit", f"{_FOLDER}.vkgrad_jit", ours=True, recorded=True),
        Entry("vkgrad_eager", f"{_FOLDER}.vkgrad_eager", ours=True),
        Entry("torch_eager", f"{_FOLDER}.torch_eager"),
        # Half a minute of compilation a model: raced at one size.
        Entry("torch_compile", f"{_FOLDER}.torch_compile", batches=(32,), compiles=True),
        Entry("torch_cuda_graph", f"{_FOLDER}.torch_cuda_graph"),
        Entry("jax_jit", f"{_FOLDER}.jax_jit"),
    )
}


def entry(name: str) -> Entry:
    """The contender of this name, or one of your own: `package.module`."""
    if name in ENTRIES:
        return ENTRIES[name]
    if "." in name:
        return Entry(name.rpartition(".")[2], name)
    raise ValueError(f"no contender {name!r}; there are {', '.join(ENTRIES)}, and any package.module")
