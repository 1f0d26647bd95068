"""Finds where a script begins to run: its main guard, or the first statement that uses a device."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from jumar.convert.model.edits import Replacement
from jumar.convert.rules.subject.code import Statement, lines_before, start_of
from jumar.convert.rules.subject.names import argument, descendants_here
from jumar.convert.syntax.literals import literal
from jumar.convert.syntax.source import Source
from jumar.convert.syntax.tree import is_docstring

_SPAWNS = ("torch.multiprocessing.spawn", "torch.multiprocessing.spawn.spawn")


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """The statement before which something can be said before a device is used."""

    statement: Statement
    place: str
    """`main guard`, `module`, or the name of the function that each process runs."""

    def insert(self, source: Source, *lines: str) -> Replacement:
        """Return the insertion of lines at the entry."""
        return lines_before(source, self.statement, *lines)


def entry(source: Source) -> Entry | None:
    """Return where the script begins, None for a module that is imported, or a form that is not known."""
    return _spawned(source) or _guard(source) or _first_use(source)


def is_spawning(source: Source) -> bool:
    """Tell whether the file starts processes with torch.multiprocessing.spawn."""
    return any(reference.name in _SPAWNS and reference.call is not None for reference in source.references)


def _spawned(source: Source) -> Entry | None:
    for reference in source.references:
        if reference.name in _SPAWNS and reference.call is not None:
            started = argument(reference.call, 0, "fn")
            bindings = source.scope(started).bindings_of(started.value) if isinstance(started, cst.Name) else []
            if len(bindings) == 1 and isinstance(bindings[0].node, cst.FunctionDef):
                return _first_of(bindings[0].node.body, bindings[0].node.name.value)
    return None


def _guard(source: Source) -> Entry | None:
    for statement in source.module.body:
        if isinstance(statement, cst.If) and "__name__" in source.code(statement.test):
            return _first_of(statement.body, "main guard")
    return None


def _first_of(body: cst.BaseSuite, place: str) -> Entry | None:
    statements = list(body.body) if isinstance(body, cst.IndentedBlock) else []
    if len(statements) > 1 and is_docstring(statements[0]):
        statements = statements[1:]
    first = statements[0] if statements else None
    return Entry(first, place) if isinstance(first, (cst.SimpleStatementLine, cst.BaseCompoundStatement)) else None


def _first_use(source: Source) -> Entry | None:
    """Return the first statement of the module that uses a device when it runs, behind the import of torch."""
    imported = [source.span(node)[0] for node in (*source.nodes(cst.Import), *source.nodes(cst.ImportFrom))]
    for statement in source.module.body:
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            continue
        if uses_device(source, statement) and imported and min(imported) < start_of(source, statement):
            return Entry(statement, "module")
    return None


def uses_device(source: Source, node: cst.CSTNode) -> bool:
    """Tell whether code names an accelerator when it runs: torch.cuda, `.cuda()`, a device string."""
    for found in descendants_here(node):
        if isinstance(found, (cst.Import, cst.ImportFrom)):
            return False
        if isinstance(found, cst.Attribute) and found.attr.value == "cuda":
            return True
        text = literal(source, found)
        if text is not None and (text.is_bare or text.is_indexed):
            return True
    return False
