"""Imports of torch.cuda in agnostic code. Uses are written in full, and imports without a use are removed.

Not a rule of its own; `torch_cuda_import` asks it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

import libcst as cst

from jumar.convert.model.edits import Replacement
from jumar.convert.model.spans import Span
from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.literals import literal
from jumar.convert.syntax.scopes import dotted_name
from jumar.convert.syntax.source import Reference, Source, imported_name

IMPORT_TORCH = "import torch"


class Uses:
    """What this file does with each name it imports from torch.cuda."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._source = context.source
        scope = context.source.tree.own_scopes[context.source.module]
        self._has_torch = any(scope.candidates(name) == ("torch",) for name in scope.bindings)
        self._of: dict[cst.CSTNode, list[Reference]] = {}
        for reference in self._source.references:
            root = reference.chain[0]
            if isinstance(root, cst.Name) and reference.names[0].startswith("torch.cuda"):
                for binding in self._source.scope(root).bindings_of(root.value):
                    self._of.setdefault(binding.node, []).append(reference)

    @property
    def has_plain_torch(self) -> bool:
        """Whether a statement imports torch itself under its name."""
        return any(
            dotted_name(alias.name) == "torch" and alias.asname is None
            for statement in self._source.nodes(cst.Import)
            for alias in statement.names
        )

    def vanish(self, alias: cst.ImportAlias) -> bool:
        """Tell whether every use of an import item is written in full, so that the item can go.

        A name without uses, in `__all__`, or in an `__init__.py` is there for other files.
        """
        uses = self._of.get(alias, [])
        if not uses or PurePosixPath(self._source.path).name == "__init__.py" or self._is_exported(alias):
            return False
        return all(use.certain and self._is_written(use) for use in uses)

    def _is_written(self, use: Reference) -> bool:
        if use.name.startswith("torch.cuda.amp") or use.node in self._source.tree.stored:
            return False
        root = use.chain[0]
        assert isinstance(root, cst.Name)
        bindings = self._source.scope(root).bindings_of(root.value)
        return len(bindings) == 1 and bool(self._context.dialect.reference(use).edits)

    def _is_exported(self, alias: cst.ImportAlias) -> bool:
        name = alias.evaluated_alias or (dotted_name(alias.name) or "").rpartition(".")[2]
        for assign in self._source.nodes(cst.Assign):
            targets = [target.target for target in assign.targets]
            if any(isinstance(target, cst.Name) and target.value == "__all__" for target in targets):
                elements = assign.value.elements if isinstance(assign.value, (cst.List, cst.Tuple)) else ()
                found = (literal(self._source, element.value) for element in elements)
                return any(text is not None and text.body == name for text in found)
        return False

    def drop(self, statement: cst.Import | cst.ImportFrom) -> list[Replacement] | None:
        """Return the edits that put `import torch` in place of a statement, or nothing where torch is there already.

        None where a comment would be lost.
        """
        source = self._source
        start, end = source.span(statement)
        if "#" in source.text.text[start:end]:
            return None
        line = source.parent(statement)
        block = source.parent(line) if line is not None else None
        alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
        if self._has_torch and alone and isinstance(block, (cst.Module, cst.IndentedBlock)) and len(block.body) > 1:
            first, last = source.text.line_start(start), source.text.line_end(end - 1)
            if not source.text.text[end:last].strip():
                return [Replacement(first, last, "")]
        self._has_torch = self._has_torch or block is source.module
        return [Replacement(start, end, IMPORT_TORCH)]

    def without(self, statement: cst.ImportFrom, gone: list[cst.ImportAlias]) -> list[Replacement] | None:
        """Return the edits that take items out of a statement; None where a comment would be lost."""
        assert not isinstance(statement.names, cst.ImportStar)
        names = list(statement.names)
        if len(gone) == len(names):
            return self.drop(statement)
        edits = list(without_items(self._source, names, gone))
        whole = self._source.text.text
        return None if any("#" in whole[edit.start : edit.end] for edit in edits) else edits


def without_items(
    source: Source, names: Sequence[cst.ImportAlias], gone: Sequence[cst.ImportAlias]
) -> Iterator[Replacement]:
    """Yield the deletions of items, each up to the next one; the last ones go from the end of the last one kept."""
    spans = [item_span(source, alias) for alias in names]
    kept = max(index for index, alias in enumerate(names) if alias not in gone)
    for index, alias in enumerate(names[:kept]):
        if alias in gone:
            yield Replacement(spans[index][0], spans[index + 1][0], "")
    if kept + 1 < len(names):
        yield Replacement(spans[kept][1], spans[-1][1], "")


def item_span(source: Source, alias: cst.ImportAlias) -> Span:
    """Return the span of an import item with its new name."""
    node = alias.asname.name if alias.asname is not None else alias.name
    return source.span(alias.name)[0], source.span(node)[1]


def item_name(alias: cst.ImportAlias, statement: cst.ImportFrom) -> str:
    """Return the qualified name of an item."""
    return imported_name(alias, statement) or ""
