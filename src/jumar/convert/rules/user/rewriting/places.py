"""Finds the places of one source where a user rule applies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from jumar.convert.syntax.source import Reference, Source
from jumar.convert.user_rules.model import UserRule
from jumar.convert.user_rules.patterns import Pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One use of a name that a pattern matches."""

    node: cst.Name | cst.Attribute
    """The whole chain of attributes."""
    code: str
    pattern: Pattern
    name: str
    """The name that matched: qualified, or that of the attribute."""
    call: cst.Call | None = None
    reference: Reference | None = None
    """None for an attribute of an unknown object, and a function of the file itself."""
    index: int = 0
    """Which node of the reference's chain the matched name ends at."""
    certain: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether the match is the whole chain, so that a call is a call of what was matched."""
        return self.reference is None or self.index == len(self.reference.chain) - 1


def places(source: Source, rule: UserRule) -> Iterator[Place]:
    """Yield every use of a name, in source order, that a pattern of `rule` matches; imports aside."""
    qualified = [pattern for pattern in rule.patterns if not pattern.is_attribute]
    attributes = [pattern for pattern in rule.patterns if pattern.is_attribute]
    found = [*_references(source, qualified), *_attributes(source, attributes, called=rule.called)]
    if rule.functions:
        found += _own_functions(source, attributes)
    yield from sorted(found, key=lambda place: source.span(place.node))


def _references(source: Source, patterns: list[Pattern]) -> Iterator[Place]:
    seen: set[cst.CSTNode] = set()
    if not patterns:
        return
    for reference in source.references:
        place = None if reference.node in seen else _matched(source, reference, patterns)
        if place is not None:
            seen.add(reference.node)
            yield place


def _matched(source: Source, reference: Reference, patterns: list[Pattern]) -> Place | None:
    for index in range(len(reference.names) - 1, -1, -1):
        name = absolute(source.path, reference.names[index])
        for pattern in patterns:
            if pattern.match(name) is not None:
                return Place(
                    node=reference.node,
                    code=source.code(reference.node),
                    pattern=pattern,
                    name=name,
                    call=reference.call,
                    reference=reference,
                    index=index,
                    certain=reference.certain,
                )
    return None


def absolute(path: str, name: str) -> str:
    """Return a relative qualified name (`.utils.load` in `package/train.py`) as seen from the source root."""
    bare = name.lstrip(".")
    level = len(name) - len(bare)
    folders = path.split("/")[:-1]
    if not level or level - 1 > len(folders):
        return bare
    return ".".join([*folders[: len(folders) - level + 1], *([bare] if bare else [])])


def _attributes(source: Source, patterns: list[Pattern], *, called: bool) -> Iterator[Place]:
    if not patterns:
        return
    for node in source.methods:
        name = node.attr.value
        call = source.called(node)
        pattern = next((pattern for pattern in patterns if pattern.match(name) is not None), None)
        if pattern is not None and (call is not None or not called):
            yield Place(node=node, code=_short(source.code(node)), pattern=pattern, name=name, call=call)


def _own_functions(source: Source, patterns: list[Pattern]) -> Iterator[Place]:
    """Yield calls of functions that are neither imported nor builtin: the documents' rules mean them, too."""
    if not patterns:
        return
    for call in source.nodes(cst.Call):
        if not isinstance(call.func, cst.Name) or source.candidates(call.func) != (None,):
            continue
        pattern = next((pattern for pattern in patterns if pattern.match(call.func.value) is not None), None)
        if pattern is not None:
            yield Place(node=call.func, code=call.func.value, pattern=pattern, name=call.func.value, call=call)


def _short(code: str) -> str:
    text = " ".join(code.split())
    return text if len(text) <= 60 else f"…{text[-59:]}"
