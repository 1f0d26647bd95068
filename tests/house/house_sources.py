"""The files of `src/jumar` and what each imports: what the tests of the house's shape read."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "jumar"


def module_name(path: Path) -> str:
    """Return the dotted name of `path`; a package's own file has the package's name."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Path]:
    """Return every module of the project by its dotted name."""
    return {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


@cache
def arrows() -> dict[str, frozenset[str]]:
    """Return, by module, the modules that it imports at run time, also inside functions."""
    return {name: frozenset(_imported(path) - {name}) for name, path in modules().items()}


def _imported(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    for_types = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for statement in block.body
        for node in ast.walk(statement)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in modules() else node.module for name in names}
    return found & set(modules())


def unit(module: str) -> str:
    """Return the sub-package or top file of its room that `module` belongs to; `__init__` for the room's own file."""
    parts = module.split(".")
    return parts[2] if len(parts) > 2 else "__init__"


def room(module: str) -> str:
    """Return the room of `module`; `__init__` for the project's own file."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"
