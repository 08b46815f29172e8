"""The stages import downwards only, and nothing imports in a circle. The checker is checked on made-up trees."""

from __future__ import annotations

import ast
from pathlib import Path

import networkx
import pytest

import vkgrad

# From the bottom up. A module may import from its own group or from one above its line here, never below.
LAYERS = (
    ("errors", "config", "counters", "notice", "sizes", "showing", "spelling", "elsewhere", "checked"),
    ("ir",),
    ("ops",),
    ("autodiff", "batching"),
    ("schedule",),
    ("codegen",),
    ("runtime",),
    ("engine",),
    (
        "tensor", "composites", "tree", "history", "conversion", "precision", "indexing", "updates", "functions",
        "functional", "mapping", "looping", "checkpointing", "custom_kernels", "custom_rules", "fft", "random",
        "linalg", "singular",
        "tracing", "arguments", "holding", "step", "jit", "execution", "testing",
        "placement", "draws", "array_api", "einops_backend", "distributions", "inference",
    ),
    ("nn", "optim", "data", "metrics", "serialization", "resuming", "epochs", "fitting", "anomalies"),
    ("sklearn", "viz", "profile", "reporting", "bench", "cli", "onnx", "__init__", "__main__"),
)  # fmt: skip
LAYER_OF = {name: number for number, names in enumerate(LAYERS) for name in names}


def modules_of(root: Path) -> dict[str, Path]:
    """The package's modules by dotted name without the package's own, e.g. `ir.node`; a package is its `__init__`."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        found[name] = path
    return found


def _imported(tree: ast.Module, package: str, module: str, is_package: bool) -> set[str]:
    """Dotted names that the code imports from `package`, those that only a type checker sees left out."""
    names: set[str] = set()
    here = [package, *module.split(".")] if is_package else [package, *module.split(".")[:-1]]
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending.extend(node.orelse)
            continue
        pending.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(here[: len(here) - node.level + 1]) if node.level else ""
            start = ".".join(part for part in (base, node.module) if part)
            names |= {f"{start}.{alias.name}" for alias in node.names}
    return {name.removeprefix(package).removeprefix(".") for name in names if f"{name}.".startswith(f"{package}.")}


def import_graph(root: Path) -> networkx.DiGraph:
    """An edge from each module to each that it imports by name.

    That importing a module also runs the `__init__` above it is not an edge: those only list their own folder.
    """
    modules = modules_of(root)
    graph = networkx.DiGraph()
    graph.add_nodes_from(modules)
    for module, path in modules.items():
        for name in _imported(ast.parse(path.read_text()), root.name, module, path.name == "__init__.py"):
            target = name or "__init__"
            while target not in modules and "." in target:
                target = target.rpartition(".")[0]
            if target not in modules:  # a name from the package's own __init__, or a compiled module
                target = target if target in LAYER_OF else "__init__"
            if target != module:
                graph.add_edge(module, target)
    return graph


def violations(graph: networkx.DiGraph) -> list[str]:
    """What is wrong with an import graph, one sentence each."""
    found = [f"{name}: in no layer; add it to LAYERS" for name in graph if name.split(".")[0] not in LAYER_OF]
    for importer, imported in graph.edges:
        low, high = (LAYER_OF.get(name.split(".")[0]) for name in (importer, imported))
        if low is not None and high is not None and high > low:
            found.append(f"{importer} imports {imported}, which is above it")
    for part in networkx.strongly_connected_components(graph):
        if len(part) > 1:
            found.append(f"circle: {', '.join(sorted(part))}")
    return sorted(found)


def test_package_imports_downwards() -> None:
    graph = import_graph(Path(vkgrad.__file__).parent)
    assert len(graph) > 20
    assert violations(graph) == []


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"errors.py": "", "ir/__init__.py": "", "ir/node.py": "from vkgrad.errors import X\nimport numpy"}, None),
        ({"ir/__init__.py": "", "ir/a.py": "from vkgrad.ir import b", "ir/b.py": "from . import a"}, "circle"),
        ({"ir/__init__.py": "", "ir/a.py": "import vkgrad.ir.b", "ir/b.py": "def f():\n  from .a import x"}, "circle"),
        ({"errors.py": "from vkgrad.tensor import Tensor", "tensor.py": ""}, "above it"),
        ({"ir/__init__.py": "", "ir/a.py": "import vkgrad.engine as e", "engine.py": ""}, "above it"),
        ({"ops/__init__.py": "", "ops/a.py": "from ..autodiff import vjp", "autodiff.py": ""}, "above it"),
        ({"ir/__init__.py": "", "ir/a.py": "from vkgrad import grad", "__init__.py": ""}, "above it"),
        ({"errors.py": "", "surprise.py": ""}, "in no layer"),
        ({"errors.py": "if TYPE_CHECKING:\n    from vkgrad.engine import X", "engine.py": ""}, None),
    ],
)
def test_checker_sees(tmp_path: Path, files: dict[str, str], complaint: str | None) -> None:
    root = tmp_path / "vkgrad"
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = violations(import_graph(root))
    assert bool(found) == (complaint is not None), found
    assert complaint is None or any(complaint in line for line in found), found
