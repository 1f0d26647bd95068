"""Places the statements that edits need in a module: after the imports, before the first statement.

Not a rule of its own; `import_torch_npu` asks it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from jumar.convert.model.edits import Replacement
from jumar.convert.syntax.scopes import dotted_name
from jumar.convert.syntax.source import Source
from jumar.convert.syntax.tree import is_docstring

ImportNode = cst.Import | cst.ImportFrom

_HEADER_LINE = re.compile(r"#!|#.*coding[:=]")
_ENDS_HEAD = (cst.FunctionDef, cst.ClassDef, cst.For, cst.While, cst.With, cst.Match)


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the module after or before which statements go, and their indentation.

    After a line is the end of that line, not the start of the next one, where other edits may begin.
    """

    offset: int
    indent: str = ""
    follows: bool = True

    def line(self, source: Source, statement: str, *, apart: bool = False, first: bool = False) -> Replacement:
        """Return the insertion of a statement, between empty lines where it should stand `apart`.

        `first`: nothing else is inserted here before it.
        """
        newline, rest = source.text.newline, source.text.text[self.offset :]
        lines = [self.indent + line for line in statement.split("\n")]
        if apart:
            lines = ["", *lines]
            if self.follows and len(rest.splitlines()) > 1 and rest.splitlines()[1].strip():
                lines.append("")
            elif not self.follows:
                lines = [*lines[first:], ""]
        text = newline.join(lines)
        return Replacement(self.offset, self.offset, newline + text if self.follows else text + newline)


def torch_imports(source: Source) -> list[ImportNode]:
    """Return every statement that imports torch or a part of it, in source order."""
    found: list[ImportNode] = [
        node for node in source.nodes(cst.Import) if any(_root(alias.name) == "torch" for alias in node.names)
    ]
    found += [
        node
        for node in source.nodes(cst.ImportFrom)
        if (node.module is not None and not node.relative and _root(node.module) == "torch")
        or _passes_torch(source, node)
    ]
    return sorted(found, key=source.span)


def _passes_torch(source: Source, node: cst.ImportFrom) -> bool:
    """Tell whether a statement takes torch itself from another module (`from common import torch`)."""
    scope = source.tree.own_scopes[source.module]
    if isinstance(node.names, cst.ImportStar):
        return scope.star_names.get("torch") == "torch" and "torch" not in scope.bindings
    return any(
        binding.node is alias and binding.qualified == "torch"
        for alias in node.names
        for binding in source.scope(alias).bindings_of(alias.evaluated_alias or dotted_name(alias.name) or "")
    )


def _root(node: cst.CSTNode) -> str:
    return (dotted_name(node) or "").partition(".")[0]


def block_of(source: Source, statement: cst.CSTNode) -> cst.CSTNode | None:
    """Return the module or suite whose line a statement stands on, None for a suite on the line of its header."""
    line = source.parent(statement)
    block = source.parent(line) if isinstance(line, cst.SimpleStatementLine) else None
    return block if isinstance(block, (cst.Module, cst.IndentedBlock)) else None


def is_conditional(source: Source, statement: cst.CSTNode) -> bool:
    """Tell whether a statement stands in a `try` or `if` of the module, and not in a function or for type checkers."""
    for around in source.ancestors(statement):
        if isinstance(around, (cst.FunctionDef, cst.ClassDef, cst.Lambda)):
            return False
        if isinstance(around, cst.If) and "TYPE_CHECKING" in source.code(around.test):
            return False
    return True


def after(source: Source, statement: cst.CSTNode) -> Place:
    """Return the place after the line of a statement, indented as it is."""
    start, end = source.span(statement)
    line = source.text.text[: source.text.line_end(max(0, end - 1))]
    return Place(len(line.rstrip("\r\n")), _indent(source, start))


def before(source: Source, statement: cst.CSTNode) -> Place:
    """Return the place on the line of a statement, under the comments above it that an empty line sets apart."""
    decorators = statement.decorators if isinstance(statement, (cst.FunctionDef, cst.ClassDef)) else ()
    at = source.span(decorators[0] if decorators else statement)[0]
    start, indent = source.text.line_start(at), _indent(source, at)
    return Place(_above_comments(source.text.text, start), indent, follows=False)


def _indent(source: Source, offset: int) -> str:
    line = source.text.text[source.text.line_start(offset) : offset]
    return line[: len(line) - len(line.lstrip())].rpartition("\f")[2]


def _above_comments(text: str, start: int) -> int:
    """Return the start of the comment block that ends at `start`; the block at the top of the file is not passed."""
    at = start
    while at:
        line_start = max(text.rfind("\n", 0, at - 1), text.rfind("\r", 0, at - 1)) + 1
        line = text[line_start:at].strip()
        if not line.startswith("#") or _HEADER_LINE.match(line):
            return at
        at = line_start
    return start


def statements(source: Source) -> Iterator[cst.CSTNode]:
    """Yield the module's statements after its docstring and `__future__` imports."""
    body = list(source.module.body)
    if body and is_docstring(body[0]):
        body = body[1:]
    for index, statement in enumerate(body):
        if not _is_future(statement):
            yield from body[index:]
            return


def head(source: Source, limit: int, edits: Sequence[Replacement] = ()) -> Place:
    """Return the place after the imports that open the module, before the statement that holds the offset `limit`.

    No place is within one of `edits`, which may take a line out.

    Settings of `os.environ` among or right after the imports count as imports, because what they set must
    be there before a device is asked for.
    """
    last: cst.CSTNode | None = None
    first = next(statements(source), None)
    for statement in statements(source):
        start, end = source.span(statement)
        if isinstance(statement, _ENDS_HEAD) or start <= limit < end or start > limit:
            break
        if _is_import(statement) or _sets_environment(source, statement):
            last = statement if _is_free(after(source, statement), edits) else last
    if last is not None:
        return after(source, last)
    if first is not None:
        return before(source, first)
    ending = source.module.body[-1] if source.module.body else None
    return Place(0, follows=False) if ending is None else after(source, ending)


def _is_free(place: Place, edits: Sequence[Replacement]) -> bool:
    return not any(edit.start < place.offset < edit.end for edit in edits)


def _is_future(statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and any(
        isinstance(part, cst.ImportFrom) and part.module is not None and dotted_name(part.module) == "__future__"
        for part in statement.body
    )


def _is_import(statement: cst.CSTNode) -> bool:
    if isinstance(statement, cst.Try):
        return any(_is_import(inner) for inner in statement.body.body)
    return isinstance(statement, cst.SimpleStatementLine) and any(
        isinstance(part, (cst.Import, cst.ImportFrom)) for part in statement.body
    )


def _sets_environment(source: Source, statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and source.code(statement).startswith(
        ("os.environ", "environ[", "os.putenv")
    )
