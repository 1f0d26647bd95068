"""Finds the modules beside a script that it imports, without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from jumar.base.errors import InputError
from jumar.convert.model.text import parse_python


def local_modules(script: Path) -> list[Path]:
    """Return the script and the modules it imports from its own folder, transitively.

    The script comes first, the others follow in the order they are met. Imports in functions and
    `importlib.import_module("literal")` count. A file that does not parse is listed and not followed.
    Raises InputError when the script is not a file.
    """
    script = Path(script)
    if not script.is_file():
        raise InputError(f'"{script}" must be a Python file; there is none of that name.')
    root = script.parent
    found: dict[Path, None] = {script: None}
    waiting = [script]
    while waiting:
        path = waiting.pop(0)
        for name in _imported_names(path, root):
            for module in _files_of(name, root):
                if module not in found and module.resolve() != script.resolve():
                    found[module] = None
                    waiting.append(module)
    return list(found)


def _imported_names(path: Path, root: Path) -> Iterator[str]:
    """Yield dotted names, seen from `root`, that `path` imports; a name may turn out to be no module."""
    try:
        tree = parse_python(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError, OSError):
        return
    package = path.parent.relative_to(root).parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, package)
            if base is not None:
                yield base
                yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names)
        elif isinstance(node, ast.Call):
            yield from _dynamic(node)


def _base(node: ast.ImportFrom, package: tuple[str, ...]) -> str | None:
    if not node.level:
        return node.module
    if node.level > len(package) + 1:
        return None
    parts = package[: len(package) - node.level + 1]
    return ".".join([*parts, *((node.module,) if node.module else ())])


def _dynamic(node: ast.Call) -> Iterator[str]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in ("import_module", "__import__") and node.args and isinstance(node.args[0], ast.Constant):
        value = node.args[0].value
        if isinstance(value, str):
            yield value


def _files_of(name: str, root: Path) -> Iterator[Path]:
    """Yield the files that importing `name` runs: the packages on the way, and the module."""
    folder = root
    parts = [part for part in name.split(".") if part]
    for index, part in enumerate(parts):
        module, package = folder / f"{part}.py", folder / part
        if (package / "__init__.py").is_file():
            yield package / "__init__.py"
        elif module.is_file():
            yield module
            return
        elif not package.is_dir() or index == len(parts) - 1:
            return
        folder = package
