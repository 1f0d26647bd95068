"""Finds the modules of the project that a script imports, without running it: `local_modules`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from jumar.base.errors import InputError
from jumar.convert.model.text import parse_python


def local_modules(
    script: Path, folders: Sequence[Path] = (), is_own: Callable[[Path], bool] = lambda _: True
) -> list[Path]:
    """Return the script and the modules it imports from its own folder and from `folders`, transitively.

    The script comes first, the others follow in the order they are met. Imports in functions and
    `importlib.import_module("literal")` count. A file that does not parse is listed and not followed. `folders` are
    further ones that Python imports from, such as those of PYTHONPATH. A module that `is_own` says no of is left out,
    with what only it imports. Raises InputError when the script is not a file.
    """
    script = Path(script)
    if not script.is_file():
        raise InputError(f'"{script}" must be a Python file; there is none of that name.')
    places = [script.parent, *folders]
    found: dict[Path, None] = {script: None}
    known = {script.resolve()}
    waiting = [(script, script.parent)]
    while waiting:
        path, root = waiting.pop(0)
        for name in _imported_names(path, root):
            for module, place in _modules_of(name, [root, *places]):
                if module.resolve() not in known and is_own(module):
                    known.add(module.resolve())
                    found[module] = None
                    waiting.append((module, place))
    return list(found)


def _modules_of(name: str, places: Sequence[Path]) -> Iterator[tuple[Path, Path]]:
    """Yield the files that importing `name` runs, with the folder they are imported from: the first that has any."""
    for place in dict.fromkeys(places):
        files = list(_files_of(name, place))
        if files:
            yield from ((file, place) for file in files)
            return


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
