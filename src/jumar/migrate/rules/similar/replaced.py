"""One use replaced by something similar, and what becomes of the imports that nothing needs any more."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from jumar.findings import Severity
from jumar.migrate.counterparts import library_of
from jumar.migrate.edits import Proposal, Replacement
from jumar.migrate.options import ConvertOptions
from jumar.migrate.rules.context import Context
from jumar.migrate.rules.similar.spelling import spelled, without_statement
from jumar.migrate.source import Reference, Source, imported_name
from jumar.migrate.spans import Span
from jumar.rules import Rule

Finder = Callable[[Context], Iterator["Replaced"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """A use and the proposal about it; without replacements it was left, and the message says why."""

    reference: Reference
    proposal: Proposal


def named(
    context: Context, rule: Rule, reference: Reference, name: str, edits: Sequence[Replacement], caveat: str
) -> Replaced:
    """Return the replacement of a reference by `name`, with the edits of its arguments and what to know about it."""
    source = context.source
    text, requires = spelled(source, reference.node, name)
    return Replaced(
        reference=reference,
        proposal=Proposal(
            rule=rule,
            span=source.span(reference.node),
            message=f"`{reference.name}` was replaced by the similar {name}.",
            replacements=(Replacement(*source.span(reference.node), text), *edits),
            severity=Severity.ADVICE,
            why=caveat,
            action="Compare results and speed with the original.",
            requires=requires,
            evidence={"similar": name, "caveat": caveat},
        ),
    )


def left(context: Context, rule: Rule, reference: Reference, reason: str) -> Replaced:
    """Return the report that a use could not be replaced."""
    return Replaced(
        reference=reference,
        proposal=Proposal(
            rule=rule,
            span=(context.source.span(reference.node)[0], context.source.span(reference.call or reference.node)[1]),
            message=f"`{reference.name}` was not replaced by something similar: {reason}.",
            severity=Severity.ADVICE,
            action="See the finding about its counterpart.",
        ),
    )


def words_of(*words: bytes) -> Callable[[ConvertOptions], tuple[bytes, ...]]:
    """Return a trigger: these words where similar interfaces are allowed; none otherwise, and no file is looked at."""
    return lambda options: words if options.similar else ()


class Plan:
    """All replacements of one file by their rule, and the imports that go with them."""

    def __init__(self, context: Context, finders: Mapping[str, Finder]) -> None:
        self._found: dict[str, list[Replaced]] = {}
        for code, find in finders.items():
            if code not in context.options.disable:
                items = (item for item in find(context) if not _is_taken(context, item))
                self._found[code] = [_with_moves(context, item) for item in items]
        self._imports = dict(_imports(context, self._found))

    def proposals(self, code: str) -> Iterator[Proposal]:
        """Yield what one rule says, its imports last."""
        yield from (item.proposal for item in self._found.get(code, ()))
        yield from self._imports.get(code, ())


_FINDERS: dict[str, Finder] = {}
_PLANS: weakref.WeakKeyDictionary[Source, Plan] = weakref.WeakKeyDictionary()


def finder(rule: Rule) -> Callable[[Finder], Finder]:
    """Make a function the finder of a rule, so that imports are judged over what all rules replace."""

    def register(find: Finder) -> Finder:
        _FINDERS[rule.code] = find
        return find

    return register


def proposals(context: Context, rule: Rule) -> Iterator[Proposal]:
    """Yield what a rule says of the file where similar interfaces are allowed; the rules share one plan."""
    if not context.options.similar:
        return
    plan = _PLANS.get(context.source)
    if plan is None:
        plan = _PLANS.setdefault(context.source, Plan(context, _FINDERS))
    yield from plan.proposals(rule.code)


def _with_moves(context: Context, item: Replaced) -> Replaced:
    """Add the edits of `.cuda()` calls behind the replaced call, which begin at the character that it claims."""
    source, proposal = context.source, item.proposal
    if not proposal.replacements or item.reference.call is None:
        return item
    edits = list(proposal.replacements)
    requires = proposal.requires
    for call in _chained(source, item.reference.call):
        moved = context.dialect.move(call)
        edits += moved.edits
        requires = (*requires, *context.dialect.needs(moved.edits))
    changed = replace(proposal, replacements=tuple(edits), requires=tuple(dict.fromkeys(requires)))
    return Replaced(reference=item.reference, proposal=changed)


def _chained(source: Source, call: cst.Call) -> Iterator[cst.Call]:
    """Yield the `.cuda()` calls in a chain of methods on a call."""
    node: cst.CSTNode = call
    while isinstance(attribute := source.parent(node), cst.Attribute):
        outer = source.called(attribute)
        if outer is None:
            return
        if attribute.attr.value == "cuda":
            yield outer
        node = outer


def _is_taken(context: Context, item: Replaced) -> bool:
    return context.within_covered(context.source.span(item.reference.node))


def _imports(context: Context, found: Mapping[str, Sequence[Replaced]]) -> Iterator[tuple[str, list[Proposal]]]:
    """Yield, by rule, the removal of import items all of whose uses are replaced."""
    source = context.source
    if b"jumar:" in source.text.data:  # a comment may keep one of the uses
        return
    rules = {
        item.reference.node: item.proposal.rule
        for items in found.values()
        for item in items
        if item.proposal.replacements
    }
    cut = _cut(found)
    unused: dict[cst.CSTNode, Rule] = {}
    for alias, references in _references_by_import(source).items():
        owner = next((rules[reference.node] for reference in references if reference.node in rules), None)
        if (
            owner is not None
            and _is_library(source, alias)
            and all(_is_gone(source.span(reference.node), cut) for reference in references)
        ):
            unused[alias] = owner
    exported = _exported(source)
    by_rule: dict[str, list[Proposal]] = {}
    for statement in dict.fromkeys(source.parent(alias) for alias in unused):
        if isinstance(statement, (cst.Import, cst.ImportFrom)) and not isinstance(statement.names, cst.ImportStar):
            gone = [alias for alias in statement.names if alias in unused and _bound(alias) not in exported]
            if gone:
                proposal = _without(context, statement, gone, unused[gone[0]])
                by_rule.setdefault(proposal.rule.code, []).append(proposal)
    yield from by_rule.items()


def _is_library(source: Source, alias: cst.CSTNode) -> bool:
    """Tell whether an import item is of a CUDA library; imports of torch stay, whatever becomes of their uses."""
    if not isinstance(alias, cst.ImportAlias):
        return False
    return library_of(imported_name(alias, source.parent(alias)) or "") is not None


def _cut(found: Mapping[str, Sequence[Replaced]]) -> list[Span]:
    """Return the spans of text that replacements take away."""
    edits = (edit for items in found.values() for item in items for edit in item.proposal.replacements)
    return [(edit.start, edit.end) for edit in edits if edit.start < edit.end]


def _is_gone(span: Span, cut: Sequence[Span]) -> bool:
    return any(start <= span[0] and span[1] <= end for start, end in cut)


def _references_by_import(source: Source) -> dict[cst.CSTNode, list[Reference]]:
    """Return the references that hang on each import item; an item with rivals is left out."""
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
    edits = _items(source, list(statement.names), gone) if kept else (_whole(source, statement),)
    return Proposal(
        rule=rule,
        span=_span(source, gone[0]) if kept else source.span(statement),
        message=f"Nothing uses the import of {names} any more.",
        replacements=edits,
        severity=Severity.INFO,
    )


def _items(source: Source, names: list[cst.ImportAlias], gone: Sequence[cst.ImportAlias]) -> tuple[Replacement, ...]:
    """Return deletions of items with one comma each: with the next one while an item is kept behind it."""
    edits = []
    last_kept = max(index for index, alias in enumerate(names) if alias not in gone)
    for index, alias in enumerate(names):
        if alias in gone and index < last_kept:
            edits.append(Replacement(_span(source, alias)[0], _span(source, names[index + 1])[0], ""))
    if last_kept + 1 < len(names):
        edits.append(Replacement(_span(source, names[last_kept])[1], _span(source, names[-1])[1], ""))
    return tuple(edits)


def _span(source: Source, alias: cst.ImportAlias) -> Span:
    start, end = source.span(alias.name)
    return (start, source.span(alias.asname.name)[1]) if alias.asname is not None else (start, end)


def _whole(source: Source, statement: cst.Import | cst.ImportFrom) -> Replacement:
    """Return the deletion of the statement; where torch has no other name, `import torch` takes its place."""
    line = source.parent(statement)
    if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
        return without_statement(source, line)
    return Replacement(*source.span(statement), "pass")


def with_requirement(proposal: Proposal, *statements: str) -> Proposal:
    """Return the proposal with more statements that it needs at module level."""
    return replace(proposal, requires=tuple(dict.fromkeys((*proposal.requires, *statements))))
