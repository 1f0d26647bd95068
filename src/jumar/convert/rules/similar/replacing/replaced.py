"""`Replaced`: one use and the similar interface for it. One plan for a file covers its imports."""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.similar.replacing.spelling import spelled
from jumar.convert.rules.similar.replacing.unused_imports import removals
from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.source import Reference, Source

SINCE = {"torch.nn.RMSNorm": 4, "torch.nn.attention.bias.causal_lower_right": 3}
"""What came with a later release of PyTorch 2 than the first one that torch_npu has: its minor number."""

Finder = Callable[[Context], Iterator["Replaced"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """A use and the proposal about it; without replacements it was left, and the message says why."""

    reference: Reference
    proposal: Proposal


def named(
    context: Context, rule: Rule, reference: Reference, name: str, edits: Sequence[Replacement], caveat: str
) -> Replaced:
    """Return the replacement of a reference by `name`, with the edits of its arguments and a caveat.

    A reference is left where the release that the conversion is for does not have the name.
    """
    source = context.source
    if not is_there(context, name):
        return left(context, rule, reference, f"torch {context.options.release} has no {name}")
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


def is_there(context: Context, name: str) -> bool:
    """Tell whether the PyTorch of the chosen release has a name that rules of this group write."""
    return int(context.options.release.split(".")[1]) >= SINCE.get(name, 0)


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


class Plan:
    """All replacements of one file by their rule, and the imports that go with them."""

    def __init__(self, context: Context, finders: Mapping[str, Finder]) -> None:
        self._found: dict[str, list[Replaced]] = {}
        for code, find in finders.items():
            if code not in context.options.disable:
                items = (item for item in find(context) if not _is_taken(context, item))
                self._found[code] = [_with_moves(context, item) for item in items]
        replacing = [(item.reference, item.proposal) for items in self._found.values() for item in items]
        self._imports = removals(context, replacing)

    def proposals(self, code: str) -> Iterator[Proposal]:
        """Yield what one rule says, its imports last."""
        yield from (item.proposal for item in self._found.get(code, ()))
        yield from self._imports.get(code, ())


_RULES = ("attention", "optimizer", "module", "switch")
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
        for name in _RULES:
            importlib.import_module(f"jumar.convert.rules.similar.{name}")
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


def with_requirement(proposal: Proposal, *statements: str) -> Proposal:
    """Return the proposal with more statements that it needs at module level."""
    return replace(proposal, requires=tuple(dict.fromkeys((*proposal.requires, *statements))))
