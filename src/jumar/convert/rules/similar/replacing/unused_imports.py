"""Finds imports of CUDA libraries that have no use after the replacements."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.model.spans import Span
from jumar.convert.rules.similar.replacing.spelling import without_statement
from jumar.convert.rules.subject.agnostic_imports import item_span, without_items
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.counterparts import library_of
from jumar.convert.syntax.source import Reference, Source, imported_name

Replacing = Sequence[tuple[Reference, Proposal]]
"""Uses and the proposals that replace them."""


def removals(context: Context, replacing: Replacing) -> dict[str, list[Proposal]]:
    """Return, by the code of a rule, the removals of import items all of whose uses are replaced."""
    source = context.source
    if b"jumar:" in source.text.data:  # a comment may keep one of the uses
        return {}
    rules = {reference.node: proposal.rule for reference, proposal in replacing if proposal.replacements}
    cut = _cut(replacing)
    unused: dict[cst.CSTNode, Rule] = {}
    for alias, references in _references_by_import(source).items():
        owner = next((rules[reference.node] for reference in references if reference.node in rules), None)
        gone = owner is not None and all(_is_gone(source.span(reference.node), cut) for reference in references)
        if owner is not None and gone and _is_library(source, alias):
            unused[alias] = owner
    exported = _exported(source)
    by_rule: dict[str, list[Proposal]] = {}
    for statement in dict.fromkeys(source.parent(alias) for alias in unused):
        if isinstance(statement, (cst.Import, cst.ImportFrom)) and not isinstance(statement.names, cst.ImportStar):
            items = [alias for alias in statement.names if alias in unused and _bound(alias) not in exported]
            if items:
                proposal = _without(context, statement, items, unused[items[0]])
                by_rule.setdefault(proposal.rule.code, []).append(proposal)
    return by_rule


def _is_library(source: Source, alias: cst.CSTNode) -> bool:
    """Tell whether an import item is of a CUDA library; imports of torch stay, whatever becomes of their uses."""
    if not isinstance(alias, cst.ImportAlias):
        return False
    return library_of(imported_name(alias, source.parent(alias)) or "") is not None


def _cut(replacing: Replacing) -> list[Span]:
    """Return the spans of text that replacements take away."""
    edits = (edit for _, proposal in replacing for edit in proposal.replacements)
    return [(edit.start, edit.end) for edit in edits if edit.start < edit.end]


def _is_gone(span: Span, cut: Sequence[Span]) -> bool:
    return any(start <= span[0] and span[1] <= end for start, end in cut)


def _references_by_import(source: Source) -> dict[cst.CSTNode, list[Reference]]:
    """Return the references that use each import item; an item with other definitions of its name is left out."""
    found: dict[cst.CSTNode, list[Reference]] = {}
    shared: set[cst.CSTNode] = set()
    for reference in source.references:
        root = reference.chain[0]
        assert isinstance(root, cst.Name)
        bindings = source.scope(root).bindings_of(root.value)
        for binding in bindings:
            found.setdefault(binding.node, []).append(reference)
            if len(bindings) > 1 or binding.kind != "import":
                shared.add(binding.node)
    return {node: references for node, references in found.items() if node not in shared}


def _bound(alias: cst.ImportAlias) -> str:
    name = alias.evaluated_alias or alias.evaluated_name
    return name.partition(".")[0] if alias.asname is None else name


def _exported(source: Source) -> frozenset[str]:
    """Return the names in `__all__`, and every import of a package's `__init__`, which others may use."""
    if source.path.endswith("__init__.py"):
        return frozenset(_bound(alias) for alias in source.nodes(cst.ImportAlias))
    listed = [
        element.value.raw_value
        for node in source.nodes(cst.Assign)
        if any(isinstance(target.target, cst.Name) and target.target.value == "__all__" for target in node.targets)
        and isinstance(node.value, (cst.List, cst.Tuple))
        for element in node.value.elements
        if isinstance(element.value, cst.SimpleString)
    ]
    return frozenset(listed)


def _without(
    context: Context, statement: cst.Import | cst.ImportFrom, gone: Sequence[cst.ImportAlias], rule: Rule
) -> Proposal:
    source = context.source
    assert not isinstance(statement.names, cst.ImportStar)
    kept = [alias for alias in statement.names if alias not in gone]
    names = ", ".join(source.code(alias.name) for alias in gone)
    edits = tuple(without_items(source, statement.names, gone)) if kept else (_whole(source, statement),)
    return Proposal(
        rule=rule,
        span=item_span(source, gone[0]) if kept else source.span(statement),
        message=f"Nothing uses the import of {names} any more.",
        replacements=edits,
        severity=Severity.INFO,
    )


def _whole(source: Source, statement: cst.Import | cst.ImportFrom) -> Replacement:
    """Return the deletion of the statement; where torch has no other name, `import torch` takes its place."""
    line = source.parent(statement)
    if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
        return without_statement(source, line)
    return Replacement(*source.span(statement), "pass")
