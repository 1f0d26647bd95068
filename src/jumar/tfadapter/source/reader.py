"""`read_script`: the options that a Python file or notebook sets, found in its syntax tree; nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from jumar.base.errors import ScriptError
from jumar.tfadapter.source.calls import CLASSES
from jumar.tfadapter.source.expressions import Place, Values, bind_imports, bind_module, flags_of
from jumar.tfadapter.source.expressions.nodes import last_name
from jumar.tfadapter.source.notebook import notebook_text
from jumar.tfadapter.source.notes import Notes
from jumar.tfadapter.source.script import ScriptOptions
from jumar.tfadapter.source.statements import Statements

NOTEBOOK = ".ipynb"
_WORDS = (*CLASSES, "parameter_map", "custom_optimizers", "global_options", "environ", "putenv")
"""A file without any of these sets no option, and is not read further."""


def read_script(path: Path) -> ScriptOptions:
    """Return what a Python file or a notebook sets.

    Raises ScriptError where it cannot be read or is no Python 3. Lines of a notebook count through its code cells.
    """
    return read_text(source_text(path), path)


def source_text(path: Path) -> str:
    """Return the Python of a file, or of a notebook's code cells. Raises ScriptError where it cannot be read."""
    try:
        text = path.read_text("utf-8-sig", errors="replace")
    except OSError as error:
        raise ScriptError(f"{path} cannot be read ({error.strerror}). Name a file that you may read.") from error
    if path.suffix != NOTEBOOK:
        return text
    try:
        return notebook_text(text)
    except ValueError as error:
        raise ScriptError(f"{path} must be a notebook ({error}). Save it again, and run again.") from error


def read_text(text: str, path: Path) -> ScriptOptions:
    """Return what the text of a Python file sets. Raises ScriptError where it is no Python 3."""
    found = ScriptOptions(path)
    try:
        tree = ast.parse(text)
        if any(word in text for word in _WORDS):
            _read(tree, found)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        told = error.msg if isinstance(error, SyntaxError) else str(error) or "too deep"
        raise ScriptError(
            f"{path}{line}: the file must be valid Python 3 ({told}). Correct it, and run again."
        ) from error
    found.settings.sort(key=lambda one: one.line or 0)
    return found


def _read(tree: ast.Module, found: ScriptOptions) -> None:
    module = Values()
    bind_imports(tree, found.path.parent, module)
    bind_module(tree, module)
    body: Sequence[ast.stmt] = tree.body
    notes = Notes(found, flags_of(tree, module.value))
    notes.classes = dict(_renamed(tree))
    Statements(notes, tree, module).read(body, Place(module))


def _renamed(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the other names of the adapter's classes: by `import … as`, or by assignment."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((one.asname, one.name) for one in node.names if one.asname and one.name in CLASSES)
        elif isinstance(node, ast.Assign) and isinstance(node.value, (ast.Name, ast.Attribute)):
            name = last_name(node.value)
            yield from ((one.id, name) for one in node.targets if isinstance(one, ast.Name) and name in CLASSES)
