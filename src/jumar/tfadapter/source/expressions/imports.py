"""`bind_imports`: the constants that a script takes from modules beside it: `from config import MODE`, `cfg.MODE`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from jumar.tfadapter.source.expressions.bindings import bind_module
from jumar.tfadapter.source.expressions.nodes import own_statements
from jumar.tfadapter.source.expressions.values import Values

_MOST_BYTES = 1 << 20
_MOST_FOLDERS = 4
"""The folder of the script, and those above it, from one of which a program is started."""


def bind_imports(tree: ast.Module, folder: Path, values: Values) -> None:
    """Note the constants of imported modules. Modules that these import are not followed."""
    for node in own_statements(tree.body):
        if isinstance(node, ast.Import):
            for alias in node.names:
                _bind_all(_module_at(alias.name, 0, folder), f"{alias.asname or alias.name}.", values)
        elif isinstance(node, ast.ImportFrom):
            _bind_from(node, folder, values)


def _bind_from(node: ast.ImportFrom, folder: Path, values: Values) -> None:
    module = _module_at(node.module or "", node.level, folder)
    known = dict(_constants(module)) if module is not None else {}
    for alias in node.names:
        name = alias.asname or alias.name
        if alias.name == "*":
            _bind_all(module, "", values)
        elif alias.name in known:
            values.bind(name, known[alias.name])
        else:
            inner = ".".join(part for part in (node.module, alias.name) if part)
            _bind_all(_module_at(inner, node.level, folder), f"{name}.", values)


def _bind_all(module: Path | None, prefix: str, values: Values) -> None:
    if module is not None:
        for name, value in _constants(module):
            values.bind(f"{prefix}{name}", value)


def _module_at(name: str, level: int, folder: Path) -> Path | None:
    """Return the file of a module beside the script, or None."""
    if not name:
        return None
    above = [folder, *folder.parents]
    for base in above[level - 1 : level] if level else above[:_MOST_FOLDERS]:
        place = base.joinpath(*name.split("."))
        for file in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
            if file.is_file() and file.stat().st_size <= _MOST_BYTES:
                return file
    return None


def _constants(module: Path) -> Iterator[tuple[str, object]]:
    """Yield the names of a module with their values; nothing of one that cannot be read."""
    try:
        tree = ast.parse(module.read_text("utf-8-sig", errors="replace"))
        values = Values()
        bind_module(tree, values)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    yield from values.own()
