"""Pictures of what tensors are made of (`graph`), of what differentiation adds to it (`autodiff`), of how it will be
computed (`plan`) and in which memory (`memory`); and the graph in networkx.

Looking computes nothing: the nodes stay pending. A picture shows itself in a notebook, and `save` writes it to a file.
"""

from vkgrad.viz.album import Album
from vkgrad.viz.graphs import autodiff, graph, to_networkx
from vkgrad.viz.memory import MemoryMap, memory
from vkgrad.viz.picture import Picture
from vkgrad.viz.plans import plan

__all__ = ["Album", "MemoryMap", "Picture", "autodiff", "graph", "memory", "plan", "to_networkx"]


def __dir__() -> list[str]:
    return sorted(__all__)
