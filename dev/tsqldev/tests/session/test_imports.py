"""No circle of imports: every module can be read with what stands below it."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import tsqldev

ROOT = Path(tsqldev.__file__).parent


def _modules() -> dict[str, Path]:
    return {
        ".".join(("tsqldev", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
        for path in ROOT.rglob("*.py")
    }


def _imported(path: Path, modules: dict[str, Path]) -> set[str]:
    """What a module imports when it runs, functions included; not what it names for type checkers only."""
    found: set[str] = set()
    left: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while left:
        node = left.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in modules else node.module)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        left.extend(ast.iter_child_nodes(node))
    return found & set(modules)


def test_imports_go_one_way() -> None:
    modules = _modules()
    graph = {name: _imported(path, modules) - {name} for name, path in modules.items()}
    assert len(graph) > 100
    # A circle is a CycleError that names it.
    assert list(TopologicalSorter(graph).static_order())
