"""Tells what a device test decides: that an accelerator is there, or that a CUDA-only kernel is chosen.

The first kind is converted, the second is not: left alone it is false on the NPU, and the program
takes the path it already has for every other device. The judgement rests on names: those beside the
test, the name its value gets, the function it stands in, and what the guarded code calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import libcst as cst

from jumar.convert.model.words import calls_cuda_only, is_cuda_only
from jumar.convert.syntax.alternatives import has_twin
from jumar.convert.syntax.devices import callee_name, target_names
from jumar.convert.syntax.literals import literal
from jumar.convert.syntax.source import Source
from jumar.convert.syntax.tree import descendants, leaves

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a guard decides, and the names it was judged by."""

    kind: Literal["accelerator", "kernel", "handled"]
    """`handled`: the program has a name for the NPU beside this one."""
    evidence: tuple[str, ...] = ()
    guarded: tuple[cst.CSTNode, ...] = ()
    """Code that runs only where the test finds CUDA."""


@dataclass(slots=True)
class _Site:
    """Where a test's outcome goes."""

    near: list[str] = field(default_factory=list)
    """Names beside the test, the target of its value, the function around it."""
    guarded: list[cst.CSTNode] = field(default_factory=list)
    """Code that runs only where CUDA is there."""


def is_condition(source: Source, node: cst.CSTNode) -> bool:
    """Tell whether `node` (a test) decides something: it is, or is part of, a condition or a boolean."""
    child, parent = node, source.parent(node)
    while isinstance(parent, (cst.BooleanOperation, cst.UnaryOperation)):
        child, parent = parent, source.parent(parent)
    return (isinstance(parent, (cst.If, cst.IfExp, cst.While)) and parent.test is child) or isinstance(
        parent, (cst.Assign, cst.AnnAssign, cst.Return, cst.Assert, cst.Arg, cst.NamedExpr, cst.CompIf)
    )


def judge(
    source: Source,
    node: cst.CSTNode,
    *,
    negative: bool = False,
    availability: bool = False,
    is_edited: Callable[[cst.CSTNode], bool] = lambda _node: False,
) -> Verdict:
    """Judge the test `node`.

    `negative`: the test is true where CUDA is *not* there (`!= 'cuda'`). `availability`: it asks for
    the machine (`torch.cuda.is_available()`) and not for a tensor's device, so a body that does
    both, moving data and choosing a kernel, is about the accelerator. `is_edited` tells what an edit
    replaces already: that no longer speaks for CUDA.
    """
    site = _site(source, node, negative)
    twins = tuple(dict.fromkeys(name for name in site.near if has_twin(source, name)))
    if twins:
        return Verdict("handled", twins)
    near = tuple(dict.fromkeys(name for name in site.near if is_cuda_only(name) or calls_cuda_only(name)))
    if near:
        return Verdict("kernel", near, tuple(site.guarded))
    called = tuple(dict.fromkeys(name for part in site.guarded for name in _cuda_only_calls(part, is_edited)))
    if called and not (availability and any(_moves_data(source, part) for part in site.guarded)):
        return Verdict("kernel", called, tuple(site.guarded))
    return Verdict("accelerator")


def _site(source: Source, node: cst.CSTNode, negative: bool) -> _Site:
    site = _Site()
    child: cst.CSTNode = node
    parent = source.parent(child)
    while isinstance(parent, (cst.BooleanOperation, cst.UnaryOperation)):
        if isinstance(parent, cst.UnaryOperation):
            negative = negative != isinstance(parent.operator, cst.Not)
        else:
            other = parent.right if parent.left is child else parent.left
            site.near.extend(_identifiers(other))
        child, parent = parent, source.parent(parent)
    _follow(source, site, child, parent, negative)
    return site


def _follow(source: Source, site: _Site, child: cst.CSTNode, parent: cst.CSTNode | None, negative: bool) -> None:
    function = source.enclosing(child, cst.FunctionDef)
    function_name = [function.name.value] if function is not None else []
    if isinstance(parent, (cst.If, cst.While)):
        site.guarded.extend(_branch(source, parent, negative))
        if negative and leaves(parent.body):
            site.near.extend(function_name)
    elif isinstance(parent, cst.IfExp):
        site.guarded.append(parent.orelse if negative else parent.body)
        _follow(source, site, parent, source.parent(parent), False)
    elif isinstance(parent, (cst.Assign, cst.AnnAssign, cst.NamedExpr)):
        site.near.extend(target_names(source, parent))
    elif isinstance(parent, cst.Return):
        site.near.extend(function_name)
    elif isinstance(parent, cst.DictElement):
        key = literal(source, parent.key)
        site.near.extend([key.body] if key is not None and parent.value is child else [])
    elif isinstance(parent, cst.Arg):
        call = source.parent(parent)
        site.near.extend([parent.keyword.value] if parent.keyword is not None else [])
        site.near.extend([callee_name(call)] if isinstance(call, cst.Call) else [])
    elif isinstance(parent, cst.Assert):
        site.near.extend(name for name in function_name if calls_cuda_only(name))
        site.near.extend(_message_words(parent.msg))


def _branch(source: Source, node: cst.If | cst.While, negative: bool) -> Iterator[cst.CSTNode]:
    if not negative:
        yield node.body
        return
    if node.orelse is not None:
        yield node.orelse
    if _raises(node.body):
        yield from (part for part in _statements_after(source, node) if isinstance(part, cst.SimpleStatementLine))
    elif leaves(node.body):
        yield from _statements_after(source, node)


def _message_words(message: cst.CSTNode | None) -> Iterator[str]:
    """Yield the words of an assertion's message, which may name what needs CUDA."""
    texts = [] if message is None else [part for part in descendants(message) if isinstance(part, cst.SimpleString)]
    for text in texts:
        yield from _WORD.findall(text.raw_value)


def _raises(body: cst.BaseSuite) -> bool:
    """Tell whether a suite ends by raising: what follows is then the whole of the function, not a choice in it."""
    last = body.body[-1] if body.body else None
    return isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Raise)


def _statements_after(source: Source, node: cst.CSTNode) -> Iterable[cst.CSTNode]:
    parent = source.parent(node)
    body = list(getattr(parent, "body", ())) if isinstance(parent, (cst.IndentedBlock, cst.Module)) else []
    return body[body.index(node) + 1 :] if node in body else []


def _identifiers(node: cst.CSTNode) -> Iterator[str]:
    for found in descendants(node):
        if isinstance(found, cst.Name):
            yield found.value
        elif isinstance(found, cst.Arg) and found.keyword is not None:
            yield found.keyword.value


def _cuda_only_calls(node: cst.CSTNode, is_edited: Callable[[cst.CSTNode], bool]) -> Iterator[str]:
    """Yield names of CUDA-only things that guarded code calls, or switches on by a keyword."""
    for found in descendants(node):
        if isinstance(found, cst.Call) and not is_edited(found.func):
            yield from (name for name in _identifiers(found.func) if calls_cuda_only(name))
            for argument in found.args:
                if argument.keyword is not None and is_cuda_only(argument.keyword.value):
                    yield argument.keyword.value
        elif isinstance(found, (cst.Import, cst.ImportFrom)) and not is_edited(found):
            yield from (name for name in _identifiers(found) if is_cuda_only(name))
        elif isinstance(found, cst.SimpleString) and not is_edited(found):
            text = found.raw_value
            if text.isidentifier() and is_cuda_only(text):
                yield text


def _moves_data(source: Source, node: cst.CSTNode) -> bool:
    """Tell whether code names the accelerator itself: a device string, `.cuda()`, or torch.cuda."""
    for found in descendants(node):
        if isinstance(found, cst.Attribute) and found.attr.value == "cuda":
            return True
        text = literal(source, found)
        if text is not None and (text.is_bare or text.is_indexed):
            return True
    return False
