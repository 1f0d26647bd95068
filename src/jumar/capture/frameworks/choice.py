"""Which framework a program uses, by what it imports. Nothing is run for it."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path

from jumar.base.errors import ScriptError
from jumar.base.outside.frameworks import TITLES, Framework, framework_of_imports, imported_names, names_torch
from jumar.capture.process.program import Program

_MOST_FILES = 200
TAKEN: Mapping[Framework, str] = {
    "mindspore": "`jumar record`, `jumar run` and `jumar overflow`",
    "tensorflow": "`jumar assess`, `jumar convert`, `jumar run`, `jumar record` and `jumar overflow`",
}
"""The commands that take programs of other frameworks."""
_INSTEAD = {
    ("mindspore", "jumar tune"): " Of a recording of it, `jumar tune RECORDING --job-type 4` splits the AllReduce.",
}
"""What a command does for another framework all the same."""


def framework_of(program: Program) -> Framework:
    """Return the framework of a program: MindSpore or TensorFlow where the first of its files that imports any does so.

    Followed are the entry and the modules beside it that it imports. A file that imports torch, too, is PyTorch's;
    beside MindSpore only where torch is its first import. Raises ScriptError where an entry is missing.
    """
    if program.launcher or program.kind == "shell":
        return "torch"
    for entry in program.entries:
        folder = Path.cwd() if program.kind == "module" else entry.absolute().parent
        found = _first_met(entry, folder)
        if found is not None:
            return found
    return "torch"


def must_be_torch(program: Program, command: str) -> None:
    """Raise ScriptError for a program of another framework, which `command` does not take.

    A file that imports torch beside the other framework is taken: it may compare the two, or carry weights over.
    """
    framework = framework_of(program)
    if framework != "torch" and not _names_torch_too(program):
        raise ScriptError(
            f"{program.title} is a {TITLES[framework]} program, and `{command}` is for PyTorch. {TAKEN[framework]} "
            f"take it; see docs/guide-{framework}.md.{_INSTEAD.get((framework, command), '')}"
        )


def imports_of(program: Program) -> Iterator[tuple[Path, list[str]]]:
    """Yield the files of a program, each with the names that it imports: the entry, and what it imports beside it."""
    for entry in program.entries:
        yield from _met(entry, Path.cwd() if program.kind == "module" else entry.absolute().parent)


def _names_torch_too(program: Program) -> bool:
    """Tell whether the file that decides of the framework imports torch, too."""
    decided = (names_torch(names) for _, names in imports_of(program) if framework_of_imports(names) is not None)
    return next(decided, False)


def _first_met(entry: Path, folder: Path) -> Framework | None:
    return next((found for _, names in _met(entry, folder) if (found := framework_of_imports(names)) is not None), None)


def _met(entry: Path, folder: Path) -> Iterator[tuple[Path, list[str]]]:
    waiting, done = deque([entry]), {entry.absolute()}
    while waiting and len(done) < _MOST_FILES:
        file = waiting.popleft()
        names = list(_imported(file))
        yield file, names
        for name in names:
            for other in _files_of(name, folder):
                if other.absolute() not in done:
                    done.add(other.absolute())
                    waiting.append(other)


def _imported(file: Path) -> Iterator[str]:
    """Yield the names of the modules that a file imports, in its order."""
    try:
        tree = ast.parse(file.read_text("utf-8", errors="replace"))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    yield from imported_names(tree)


def _files_of(name: str, folder: Path) -> Iterator[Path]:
    parts = [part for part in name.split(".") if part]
    if parts:
        place = folder.joinpath(*parts)
        yield from (file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file())
