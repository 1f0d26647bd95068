"""Makes the edits that replace a recognised computation by another.

The new expression stands where the last operator stood. Statements that only computed its parts go; the
names it uses must hold there what they held where the parts were computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst

from jumar.convert.model.edits import Replacement
from jumar.convert.rules.affinity.graph.expressions import Definition, Expr
from jumar.convert.rules.affinity.graph.flow import Flow, Site
from jumar.convert.rules.subject.code import deleted
from jumar.convert.syntax.source import Source
from jumar.convert.syntax.tree import descendants


class RewriteError(Exception):
    """A computation was recognised and cannot be replaced as it is written; the message ends a sentence."""


@dataclass(slots=True)
class Rewriting:
    """One replacement in the making: the site, and the parts that are kept as they are (`leaves`)."""

    source: Source
    flow: Flow
    site: Site
    leaves: Sequence[Expr]
    _gone: dict[int, Definition] = field(default_factory=dict)
    _lines: list[cst.SimpleStatementLine] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Find the statements that go. Raises RewriteError when one of them is needed otherwise."""
        reads: dict[int, set[cst.Name]] = {}
        self._walk(self.site.expr, reads, {id(leaf) for leaf in self.leaves})
        for key, definition in list(self._gone.items()):
            line = definition.line
            if set(definition.reads) != reads[key]:
                raise RewriteError(f"`{definition.name}` is used elsewhere")
            if not isinstance(line, cst.SimpleStatementLine) or line not in self.site.suite or len(line.body) != 1:
                raise RewriteError(f"`{definition.name}` is computed in another block")
            if line not in self._lines:
                self._lines.append(line)
        for line in self._lines:
            self._check_targets(line)

    def _check_targets(self, line: cst.SimpleStatementLine) -> None:
        statement = line.body[0]
        if not isinstance(statement, cst.Assign):
            raise RewriteError("a part is not computed by a plain assignment")
        stored = {
            node.value for target in statement.targets for node in descendants(target) if isinstance(node, cst.Name)
        }
        gone = {definition.name for definition in self._gone.values() if definition.line is line}
        if stored != gone:
            raise RewriteError(f"`{', '.join(sorted(stored - gone))}` is assigned beside it")

    def _walk(self, expr: Expr, reads: dict[int, set[cst.Name]], leaves: set[int]) -> None:
        if id(expr) in leaves:
            return
        for definition, name in expr.reads:
            self._gone[id(definition)] = definition
            reads.setdefault(id(definition), set()).add(name)
        for part in expr.operands:
            self._walk(part, reads, leaves)

    def text(self, leaf: Expr) -> str:
        """Return code for a part that is kept. Raises RewriteError where its variables hold something else by now."""
        for definition, name in reversed(leaf.reads):
            if id(definition) not in self._gone and self._live(name.value) is definition:
                return name.value
        if leaf.op == "constant":
            return repr(leaf.value)
        if leaf.node is None:
            raise RewriteError("a part of it has no expression of its own")
        for name in _names(leaf.node):
            if self._live(name.value) is not self.flow.origin.get(name):
                raise RewriteError(f"`{name.value}` holds something else by then")
        start, end = self.source.outer_span(leaf.node)
        code = self.source.text.text[start:end]
        if "cuda" in code.lower():
            raise RewriteError(f"`{code}` speaks of CUDA itself; convert it first")
        return code

    def variable(self, leaf: Expr) -> str:
        """Return code for a part that may be written several times. Raises RewriteError unless it is a plain name."""
        text = self.text(leaf)
        if not all(part.isidentifier() for part in text.split(".")):
            raise RewriteError(f"`{text}` would be computed several times")
        return text

    def _live(self, name: str) -> Definition | None:
        """Return the definition of a variable at the site once the statements that go are gone."""
        items = self.site.history.get(name, [None])
        return next((item for item in reversed(items) if item is None or id(item) not in self._gone), None)

    def edits(self, new: str) -> tuple[Replacement, ...]:
        """Return the edits that write `new` in the place of the last operator and delete what computed its parts."""
        node = self.site.expr.node
        if node is None:
            raise RewriteError("it has no expression of its own")
        span = self.source.outer_span(node)
        between = self.source.text.text[span[0] : span[1]]
        if "#" in between:
            raise RewriteError("a comment stands within it")
        return (Replacement(*span, new), *(deleted(self.source, line) for line in self._lines))


def _names(node: cst.CSTNode) -> Iterator[cst.Name]:
    """Yield the variables of an expression, not names of attributes and keywords."""
    stack = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, cst.Name):
            yield current
        elif isinstance(current, (cst.Attribute, cst.Arg)):
            stack.append(current.value)
        else:
            stack.extend(child for child in current.children if isinstance(child, cst.CSTNode))
