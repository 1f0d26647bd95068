"""`Context`, which a rule looks at: the source, the options, and the proposals of earlier rules."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import libcst as cst

from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.project import ALONE, ProjectFacts
from jumar.convert.model.spans import Span
from jumar.convert.syntax.alternatives import Side, cuda_sides
from jumar.convert.syntax.devices import device_identifiers
from jumar.convert.syntax.source import Reference, Source
from jumar.convert.targets import Dialect, dialect_for


@dataclass
class Context:
    """One conversion of one source. Checks run in a fixed order and see the proposals made before them."""

    source: Source
    options: ConvertOptions
    project: ProjectFacts = ALONE
    proposals: list[Proposal] = field(default_factory=list)
    _covered: set[Span] = field(default_factory=set)
    _starts: set[int] = field(default_factory=set)
    _edited: list[Span] = field(default_factory=list)
    _index: tuple[list[int], list[int], list[int]] | None = None
    """Starts of covered spans, the farthest end of any span up to each of them, and starts of edits; all sorted."""

    def add(self, proposal: Proposal) -> None:
        """Note a proposal."""
        self.proposals.append(proposal)
        self._covered.add(proposal.span)
        # An insertion does not count: another rule may be about the text beside it.
        replaced = [(edit.start, edit.end) for edit in proposal.replacements if edit.end > edit.start]
        self._starts.update(start for start, _ in replaced)
        if self.options.makes(proposal.rule, proposal.safety):
            self._edited += replaced
        self._index = None

    def covered(self, span: Span) -> bool:
        """Tell whether an earlier proposal is about exactly this place, or edits its first characters."""
        return span in self._covered or span[0] in self._starts or self.kept(span)

    def within_covered(self, span: Span) -> bool:
        """Tell whether this place is inside one that an earlier proposal is about or edits."""
        if self.kept(span):
            return True
        if self._index is None:
            spans = sorted(self._covered)
            farthest = list(itertools.accumulate((end for _, end in spans), max))
            self._index = [start for start, _ in spans], farthest, sorted(self._starts)
        starts, farthest, edits = self._index
        before = bisect.bisect_right(starts, span[0])
        if before and farthest[before - 1] >= span[1]:
            return True
        edit = bisect.bisect_left(edits, span[0])
        return edit < len(edits) and edits[edit] < span[1]

    @cached_property
    def cuda_sides(self) -> tuple[Side, ...]:
        """The parts for CUDA of code that has a part for the NPU too; no rule changes them."""
        return tuple(cuda_sides(self.source))

    @cached_property
    def _closed(self) -> list[Span]:
        """Places that no rule touches: the `cuda_sides`, and what `close` adds."""
        return [region for side in self.cuda_sides for region in (side.test, side.body) if region is not None]

    @property
    def closed(self) -> tuple[Span, ...]:
        """Places that no rule touches."""
        return tuple(self._closed)

    def close(self, span: Span) -> None:
        """Keep later rules out of a place: code behind a test for CUDA that was left never runs elsewhere."""
        self._closed.append(span)

    def edited(self, span: Span) -> bool:
        """Tell whether an edit that is made replaces something in this place."""
        return any(start < span[1] and span[0] < end for start, end in self._edited)

    def kept(self, span: Span) -> bool:
        """Tell whether a place lies in one of the `cuda_sides`, or was closed."""
        return any(start <= span[0] and span[1] <= end for start, end in self._closed)

    @cached_property
    def dialect(self) -> Dialect:
        """How the target writes devices, back ends and names of torch.cuda."""
        return dialect_for(self.options.target, self.source, self.quote)

    @cached_property
    def device_names(self) -> frozenset[str]:
        """Options and variables of this file that hold a device though their name does not say so."""
        return device_identifiers(self.source)

    @cached_property
    def quote(self) -> str:
        """The quote this file writes most strings with."""
        double = sum(node.quote.startswith('"') for node in self.source.nodes(cst.SimpleString))
        return '"' if 2 * double > len(self.source.tree.nodes.get(cst.SimpleString, [])) else "'"


Check = Callable[[Context], Iterator[Proposal]]


def renamed(source: Source, node: cst.Name, new: str) -> Replacement:
    """Return the replacement of a name's token."""
    start, end = source.span(node)
    return Replacement(start, end, new)


def token(node: cst.CSTNode) -> cst.Name:
    """Return the last name token of a name or attribute."""
    if isinstance(node, cst.Attribute):
        return node.attr
    if isinstance(node, cst.Name):
        return node
    raise TypeError(f"{type(node).__name__} has no name token")


def first_argument(source: Source, call: cst.Call, text: str) -> Replacement:
    """Return the insertion of a first positional argument."""
    if call.args:
        at = source.span(call.args[0])[0]
        return Replacement(at, at, f"{text}, ")
    at = source.span(call)[1] - 1
    return Replacement(at, at, text)


def last_argument(source: Source, call: cst.Call, text: str) -> Replacement:
    """Return the insertion of a last keyword argument; a trailing comma stays where it is."""
    if not call.args:
        at = source.span(call)[1] - 1
        return Replacement(at, at, text)
    at = source.outer_span(call.args[-1].value)[1]
    return Replacement(at, at, f", {text}")


def keyword(call: cst.Call, name: str) -> cst.Arg | None:
    """Return the argument passed by this keyword, or None."""
    return next((arg for arg in call.args if arg.keyword is not None and arg.keyword.value == name), None)


def has_star(call: cst.Call, star: str) -> bool:
    """Tell whether the call unpacks arguments with `*` or `**`."""
    return any(arg.star == star for arg in call.args)


def uses_of(source: Source, *names: str) -> Iterator[Reference]:
    """Yield certain references whose qualified name is one of `names`."""
    wanted = frozenset(names)
    return (reference for reference in source.references if reference.certain and reference.name in wanted)


def names_any(source: Source, *prefixes: str) -> bool:
    """Tell whether a reference's qualified name begins with one of `prefixes`."""
    return any(reference.name.startswith(prefixes) for reference in source.references)
