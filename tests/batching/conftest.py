from tests.reference import graph_only

__all__ = ["graph_only"]
