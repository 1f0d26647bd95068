"""Searches the functions of a file for computations, and makes proposals of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import libcst as cst

from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.affinity.graph.expressions import Expr
from jumar.convert.rules.affinity.graph.flow import Flow, Site
from jumar.convert.rules.affinity.graph.rewriting import RewriteError, Rewriting
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.names import torch_name
from jumar.convert.syntax.source import Source


@dataclass(frozen=True, slots=True)
class Found:
    """A computation that was recognised: its parts, and the code that stands for it, with the parts as fields."""

    parts: Mapping[str, Expr]
    template: str
    variables: tuple[str, ...] = ()
    """Parts that the template uses several times, so that they must be plain names."""
    problem: str = ""
    """Why it is only reported, as the end of a sentence."""
    requires: tuple[str, ...] = ()


Match = Callable[[Expr], Found | None]


def flows(source: Source) -> Iterator[Flow]:
    """Yield what each function of a file computes."""
    for function in source.nodes(cst.FunctionDef):
        yield Flow(source, function)


def proposals(context: Context, rule: Rule, match: Match, message: str) -> Iterator[Proposal]:
    """Yield a proposal for each place where `match` recognises a computation, the outermost of nested ones."""
    for flow in flows(context.source):
        done: set[int] = set()
        for site in reversed(flow.sites):  # a whole expression comes after its parts
            node = site.expr.node
            if node is None or id(node) in done or context.covered(context.source.span(node)):
                continue
            found = match(site.expr)
            if found is not None:
                done.update(_nodes(site.expr))
                yield _proposal(context, rule, flow, site, found, message)


def _nodes(expr: Expr) -> Iterator[int]:
    if expr.node is not None:
        yield id(expr.node)
    for part in expr.parts:
        yield from _nodes(part)


def _proposal(context: Context, rule: Rule, flow: Flow, site: Site, found: Found, message: str) -> Proposal:
    source, node = context.source, site.expr.node
    assert node is not None
    problem = found.problem
    edits: tuple[Replacement, ...] = ()
    if not problem:
        try:
            edits = _edits(source, flow, site, found)
        except RewriteError as error:
            problem = str(error)
    return Proposal(
        rule=rule,
        span=source.span(node),
        message=f"{message} (`{flow.function.name.value}`)" + (f"; it was left: {problem}." if problem else "."),
        replacements=edits,
        safety="unsafe",
        confidence="likely",
        requires=found.requires if edits else (),
        action=f"Consider {_shown(source, found)}" if problem and found.template else "",
    )


def _shown(source: Source, found: Found) -> str:
    """Return the code that would stand there, with the parts as they are written."""
    codes = {name: name if part.node is None else source.code(part.node) for name, part in found.parts.items()}
    return found.template.format(torch="torch", **codes)


def _edits(source: Source, flow: Flow, site: Site, found: Found) -> tuple[Replacement, ...]:
    """Return the edits of one place. Raises RewriteError where the code in between does not allow them."""
    assert site.expr.node is not None
    torch = torch_name(source, site.expr.node)
    if torch is None and "{torch}" in found.template:
        raise RewriteError("torch has no name here")
    rewriting = Rewriting(source, flow, site, list(found.parts.values()))
    fields = {
        name: rewriting.variable(part) if name in found.variables else rewriting.text(part)
        for name, part in found.parts.items()
    }
    return rewriting.edits(found.template.format(torch=torch, **fields))
