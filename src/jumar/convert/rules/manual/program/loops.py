"""The loops of a script over its data: loops that train, loops that evaluate, and their loaders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import libcst as cst

from jumar.convert.rules.subject.names import descendants_here, method_calls, parameter_of
from jumar.convert.syntax.devices import callee_name
from jumar.convert.syntax.scopes import last_name
from jumar.convert.syntax.source import Source

Purpose = Literal["train", "evaluate", "unknown"]

_WRAPPERS = frozenset(
    {"enumerate", "tqdm", "iter", "zip", "cycle", "islice", "track", "progress", "log_every", "chain"}
)
_NO_GRAD = ("torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad", "torch.autograd.grad_mode.no_grad")


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """A `for` statement over data; `fed_by` is the expression it draws from, wrappers such as `enumerate` taken off."""

    node: cst.For
    fed_by: cst.BaseExpression
    purpose: Purpose


def loops(source: Source) -> Iterator[Loop]:
    """Yield every `for` statement."""
    for node in source.nodes(cst.For):
        yield Loop(node, unwrapped(node.iter), purpose_of(source, node))


def unwrapped(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return the loader inside `enumerate(loader)`, `tqdm(loader)`, `logger.log_every(loader, 10)`."""
    while isinstance(node, cst.Call) and callee_name(node) in _WRAPPERS and node.args and not node.args[0].star:
        node = node.args[0].value
    return node


def purpose_of(source: Source, node: cst.For | cst.While) -> Purpose:
    """Tell what a loop is for: with a backward pass it trains; without gradients, or after `.eval()`, it evaluates."""
    if any(True for _ in method_calls(node.body, "backward")):
        return "train"
    if _without_gradients(source, node) or any(_without_gradients_at(source, part) for part in descendants_here(node)):
        return "evaluate"
    function = source.enclosing(node, cst.FunctionDef)
    if function is None or any(True for _ in method_calls(function, "backward")):
        return "unknown"
    return "evaluate" if any(not call.args for call in method_calls(function, "eval")) else "unknown"


def _without_gradients(source: Source, node: cst.CSTNode) -> bool:
    for around in source.ancestors(node):
        if _without_gradients_at(source, around):
            return True
        if isinstance(around, cst.FunctionDef):
            return any(_is_no_grad(source, decorator.decorator) for decorator in around.decorators)
    return False


def _without_gradients_at(source: Source, node: cst.CSTNode) -> bool:
    return isinstance(node, cst.With) and any(_is_no_grad(source, item.item) for item in node.items)


def _is_no_grad(source: Source, node: cst.BaseExpression) -> bool:
    return source.qualified(node.func if isinstance(node, cst.Call) else node) in _NO_GRAD


def loops_over(source: Source, name: cst.Name | cst.Attribute, all_loops: list[Loop], depth: int = 0) -> Iterator[Loop]:
    """Yield the loops fed by a loader's variable: in its own scope, and in functions of this file it is passed to."""
    for loop in all_loops:
        if _same_variable(source, loop.fed_by, name):
            yield loop
    if depth > 1:
        return
    for call in source.nodes(cst.Call):
        for given in call.args:
            if not _same_variable(source, given.value, name):
                continue
            bound = parameter_of(source, call, given)
            if bound is None:
                continue
            function, parameter = bound
            for loop in all_loops:
                inside = isinstance(loop.fed_by, cst.Name) and loop.fed_by.value == parameter
                if inside and source.enclosing(loop.node, cst.FunctionDef) is function:
                    yield loop


def _same_variable(source: Source, node: cst.BaseExpression, name: cst.Name | cst.Attribute) -> bool:
    if isinstance(name, cst.Attribute):
        return isinstance(node, cst.Attribute) and last_name(node) == last_name(name)
    if not isinstance(node, cst.Name) or node.value != name.value:
        return False
    return source.scope(node).home(node.value) is source.scope(name).home(name.value)
