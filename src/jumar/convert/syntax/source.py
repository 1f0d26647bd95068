"""`Source`: a parsed Python source, with the qualified name and position of every reference.

Parsing happens once; rules and the assessment read the same `Source`. A name is followed through
import aliases, from-imports, plain assignments (`cuda = torch.cuda`) and Python's scopes. Attributes
of anything that is not an imported name (`x.cuda()`) are method-like uses: their object is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar, cast

import libcst as cst

from jumar.base.findings import Location
from jumar.convert.model.project import ALONE, NOTHING, FileFacts, ProjectFacts
from jumar.convert.model.spans import Span, measure
from jumar.convert.model.text import SourceError, SourceText, parse_python
from jumar.convert.syntax import form_feeds
from jumar.convert.syntax.chains import parse_module
from jumar.convert.syntax.deep import is_too_deep, with_large_stack
from jumar.convert.syntax.scopes import Scope, dotted_name
from jumar.convert.syntax.tree import Tree, build_tree

__all__ = ["Reference", "Source", "SourceError", "Use", "parse"]

_LONE_RETURN = re.compile(r"\r(?!\n)")

NodeT = TypeVar("NodeT", bound=cst.CSTNode)
ResultT = TypeVar("ResultT")
UseKind = Literal["import", "reference", "call", "method"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One use of a name, without its node in the tree.

    `name` is the qualified name (`torch.nn.functional.relu`) for imports, references and calls; for
    `method` it is the attribute's bare name (`cuda` of `x.cuda()`), whose object is not known.
    """

    name: str
    kind: UseKind
    line: int
    column: int
    called: bool


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """The longest chain of attributes on an imported name: `torch.cuda.amp.autocast` as one thing.

    `chain` holds its nodes from the root name outwards; `names[i]` is what `chain[i]` stands for.
    """

    name: str
    node: cst.Name | cst.Attribute
    chain: tuple[cst.Name | cst.Attribute, ...]
    names: tuple[str, ...]
    call: cst.Call | None
    """The call whose function this is, if it is called."""
    certain: bool = True
    """False when the root name has rival bindings."""


def parse(source: str | bytes, path: str = "<string>", project: ProjectFacts = ALONE) -> Source:
    """Parse a whole file.

    Raises SourceError, with line and column where known, when it cannot be read as Python.
    """
    text = SourceText.of(source)
    whole = _LONE_RETURN.sub("\n", text.text)  # LibCST loses a last one; a line feed is as long, so offsets hold
    plain, taken = form_feeds.cut(whole)
    try:
        if is_too_deep(plain):
            raise SourceError("its expressions are nested too deeply")
        module = with_large_stack(parse_module, plain)
        code, spans = measure(module)
        tree = build_tree(module, project.of(path))
    except cst.ParserSyntaxError as error:
        raise _syntax_error(error, whole) from error
    except RecursionError as error:
        raise SourceError("its expressions are nested too deeply") from error
    if code != plain:
        at = next((i for i, (a, b) in enumerate(zip(code, plain, strict=False)) if a != b), len(code) - 1)
        raise SourceError("the parser does not give back this text unchanged", *text.position(max(at, 0)))
    return Source(path, text, tree, form_feeds.moved(spans, taken), project.of(path))


def _syntax_error(error: cst.ParserSyntaxError, text: str) -> SourceError:
    """Return the error in the words of Python's own parser, which names causes, where that refuses the text, too."""
    try:
        parse_python(text)
    except SyntaxError as plain:
        message = f"it is not valid Python ({plain.msg.rstrip('.')})"
        return SourceError(message, plain.lineno or error.raw_line, plain.offset or error.raw_column + 1)
    except (ValueError, RecursionError):
        pass
    return SourceError("it is not valid Python", error.raw_line, error.raw_column + 1)


class Source:
    """A parsed file. All offsets count characters of `text.text`."""

    def __init__(
        self, path: str, text: SourceText, tree: Tree, spans: dict[cst.CSTNode, Span], facts: FileFacts = NOTHING
    ) -> None:
        self.path = path
        self.text = text
        self.tree = tree
        self.facts = facts
        self._spans = spans
        self._derived: dict[Callable[[Source], object], object] = {}

    def derived(self, make: Callable[[Source], ResultT]) -> ResultT:
        """Return `make(self)`, made once a source: for what several rules read off the whole file."""
        if make not in self._derived:
            self._derived[make] = make(self)
        return cast("ResultT", self._derived[make])

    @property
    def module(self) -> cst.Module:
        """The LibCST module."""
        return self.tree.module

    def nodes(self, *kinds: type[NodeT]) -> Iterator[NodeT]:
        """Yield every node of exactly these types, a type at a time."""
        for kind in kinds:
            yield from cast("list[NodeT]", self.tree.nodes.get(kind, []))

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the node around `node`, None for the module."""
        return self.tree.parents.get(node)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the nodes around `node`, innermost first."""
        parent = self.tree.parents.get(node)
        while parent is not None:
            yield parent
            parent = self.tree.parents.get(parent)

    def enclosing(self, node: cst.CSTNode, *kinds: type[NodeT]) -> NodeT | None:
        """Return the innermost node of one of these types around `node`, or None."""
        return next((found for found in self.ancestors(node) if isinstance(found, kinds)), None)

    def span(self, node: cst.CSTNode) -> Span:
        """Return the (start, end) offsets of a node without white space and parentheses around it."""
        return self._spans[node]

    def outer_span(self, node: cst.BaseExpression) -> Span:
        """Return the offsets of an expression with its parentheses."""
        start, end = self._spans[node]
        if node.lpar:
            start, end = self._spans[node.lpar[0]][0], self._spans[node.rpar[-1]][1]
        return start, end

    def code(self, node: cst.CSTNode) -> str:
        """Return the node's source text."""
        start, end = self._spans[node]
        return self.text.text[start:end]

    def location(self, node_or_span: cst.CSTNode | Span) -> Location:
        """Return the line and column where a node or span starts."""
        start, end = node_or_span if isinstance(node_or_span, tuple) else self._spans[node_or_span]
        line, column = self.text.position(start)
        last, _ = self.text.position(max(start, end - 1))
        return Location(path=self.path, line=line, column=column, end_line=last)

    def scope(self, node: cst.CSTNode) -> Scope:
        """Return the scope that a node is evaluated in."""
        for around in (node, *self.ancestors(node)):
            scope = self.tree.scopes.get(around)
            if scope is not None:
                return scope
            if around is not node and around in self.tree.own_scopes:
                return self.tree.own_scopes[around]
        return self.tree.own_scopes[self.module]

    def candidates(self, node: cst.CSTNode) -> tuple[str | None, ...]:
        """Return the qualified names an expression may stand for; None is "something else"."""
        dotted = dotted_name(node)
        if dotted is None:
            return (None,)
        root: cst.CSTNode = node
        while isinstance(root, cst.Attribute):
            root = root.value
        name, _, rest = dotted.partition(".")
        scope = self.tree.scopes.get(root)
        if scope is None:
            return (None,)
        attributes = rest.split(".") if rest else []
        return tuple(base and self._through_project(base, attributes)[-1] for base in scope.candidates(name))

    def _through_project(self, base: str, attributes: list[str]) -> list[str]:
        """Return what `base` and each attribute after it stand for, names that other files give included."""
        names = [self.facts.names.get(base, base)]
        for attribute in attributes:
            written = f"{names[-1]}.{attribute}"
            names.append(self.facts.names.get(written, written))
        return names

    def qualified(self, node: cst.CSTNode) -> str | None:
        """Return the one qualified name an expression stands for, None when there is none or more than one."""
        found = self.candidates(node)
        return found[0] if len(found) == 1 else None

    def has_own(self, node: cst.CSTNode, method: str) -> bool:
        """Tell whether an expression is a class of another file that has a `method` (`cuda`) of its own."""
        return method in self.facts.methods.get(self.qualified(node) or "", ())

    @cached_property
    def references(self) -> tuple[Reference, ...]:
        """Every read of an imported name, in source order."""
        found = [
            reference
            for name in self.nodes(cst.Name)
            if name not in self.tree.stored and name in self.tree.scopes
            for reference in self._reference(name)
        ]
        return tuple(sorted(found, key=lambda reference: self._spans[reference.node]))

    def _reference(self, root: cst.Name) -> Iterator[Reference]:
        bases = self.tree.scopes[root].candidates(root.value)
        known = [base for base in bases if base is not None]
        if not known:
            return
        chain: list[cst.Name | cst.Attribute] = [root]
        parent = self.tree.parents.get(root)
        while isinstance(parent, cst.Attribute) and parent.value is chain[-1]:
            chain.append(parent)
            parent = self.tree.parents.get(parent)
        for base in known:
            names = self._through_project(base, [cast("cst.Attribute", node).attr.value for node in chain[1:]])
            names = self._own_words(names, chain)
            call = parent if isinstance(parent, cst.Call) and parent.func is chain[-1] else None
            yield Reference(names[-1], chain[-1], tuple(chain), tuple(names), call, certain=len(bases) == 1)

    @staticmethod
    def _own_words(names: list[str], chain: list[cst.Name | cst.Attribute]) -> list[str]:
        """Give back its written name to an attribute by which another file calls a part of torch.cuda.

        That file is converted so that its name lives on: the attribute is no `cuda` that becomes `npu`.
        """
        for at in range(1, len(names)):
            attribute = cast("cst.Attribute", chain[at]).attr.value
            if names[at] != f"{names[at - 1]}.{attribute}" and names[at].startswith("torch.cuda"):
                return [*names[:at], f"{names[at - 1]}.{attribute}", *names[at + 1 :]]
        return names

    @cached_property
    def methods(self) -> tuple[cst.Attribute, ...]:
        """Every attribute whose object is not an imported name (`x.cuda`, `net(y).to`), in source order."""
        resolved = {node for reference in self.references for node in reference.chain if reference.certain}
        found = [node for node in self.nodes(cst.Attribute) if node not in resolved]
        return tuple(sorted(found, key=lambda node: self._spans[node.attr]))

    def called(self, node: cst.CSTNode) -> cst.Call | None:
        """Return the call whose function `node` is, or None."""
        parent = self.tree.parents.get(node)
        return parent if isinstance(parent, cst.Call) and parent.func is node else None

    def uses(self) -> Iterable[Use]:
        """Yield every import, reference, call and method-like use with its position."""
        for alias in self.nodes(cst.ImportAlias):
            name = imported_name(alias, self.parent(alias))
            if name is not None:
                yield self._use(name, "import", alias.name, called=False)
        for reference in self.references:
            called = reference.call is not None
            yield self._use(reference.name, "call" if called else "reference", reference.node, called=called)
        for node in self.methods:
            yield self._use(node.attr.value, "method", node.attr, called=self.called(node) is not None)

    def _use(self, name: str, kind: UseKind, node: cst.CSTNode, *, called: bool) -> Use:
        line, column = self.text.position(self._spans[node][0])
        return Use(name=name, kind=kind, line=line, column=column, called=called)


def imported_name(alias: cst.ImportAlias, statement: cst.CSTNode | None) -> str | None:
    """Return the qualified name that one item of an import statement brings in."""
    name = dotted_name(alias.name)
    if not isinstance(statement, cst.ImportFrom):
        return name
    origin = "." * len(statement.relative) + (dotted_name(statement.module) or "" if statement.module else "")
    return f"{origin}{'' if origin.endswith('.') else '.'}{name}"
