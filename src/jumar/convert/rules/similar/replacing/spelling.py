"""Writes a replaced call: names in scope, arguments by parameter, text around expressions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from jumar.convert.model.edits import Replacement
from jumar.convert.model.spans import Span
from jumar.convert.syntax.scopes import Scope
from jumar.convert.syntax.source import Source

_ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.List, cst.Tuple, cst.Dict)

Arguments = dict[str, cst.Arg]
"""Parameter -> the argument given for it."""


def spelled(source: Source, node: cst.CSTNode, name: str) -> tuple[str, tuple[str, ...]]:
    """Return `name` (`torch.optim.AdamW`) as this place can write it, and the imports it then needs.

    The longest prefix that a name in scope surely stands for is used: `optim.AdamW`, `F.layer_norm`.
    """
    scope = source.scope(node)
    best = ""
    text = name
    for bound in sorted({bound for home in _around(scope) for bound in home.bindings}):
        found = scope.candidates(bound)
        if len(found) != 1 or found[0] is None or not found[0].startswith("torch"):
            continue
        if not _is_bound_before(source, scope, bound, node):
            continue
        if len(found[0]) > len(best) and f"{name}.".startswith(f"{found[0]}."):
            best, text = found[0], bound + name[len(found[0]) :]
    return text, () if best else ("import torch",)


def _is_bound_before(source: Source, scope: Scope, bound: str, node: cst.CSTNode) -> bool:
    """Tell whether a name surely has its value where `node` is evaluated; a function runs after its module was read."""
    home = scope.home(bound)
    if home is not scope:
        return True
    before = [binding.node for binding in home.bindings[bound] if source.span(binding.node)[1] <= source.span(node)[0]]
    return any(
        source.enclosing(found, cst.If, cst.Else, cst.Try, cst.For, cst.While, cst.With) is None for found in before
    )


def _around(scope: Scope) -> Iterator[Scope]:
    home: Scope | None = scope
    while home is not None:
        if home is scope or home.kind != "class":
            yield home
        home = home.parent


def bound_arguments(call: cst.Call, parameters: Sequence[str], *, positional: int | None = None) -> Arguments | None:
    """Return the arguments by parameter; None where the call unpacks, or gives what `parameters` does not hold.

    `positional`: how many of the parameters may be given by position; all of them by default.
    """
    found: Arguments = {}
    for index, argument in enumerate(call.args):
        if argument.star:
            return None
        if argument.keyword is None:
            if index >= (len(parameters) if positional is None else positional):
                return None
            found[parameters[index]] = argument
        elif argument.keyword.value in parameters:
            found[argument.keyword.value] = argument
        else:
            return None
    return found


def followed_by(source: Source, node: cst.BaseExpression, suffix: str) -> list[Replacement]:
    """Return the insertions that put `suffix` (`.transpose(1, 2)`) behind an expression."""
    start, end = source.outer_span(node)
    if node.lpar or isinstance(node, _ATOMS):
        return [Replacement(end, end, suffix)]
    return [Replacement(start, start, "("), Replacement(end, end, f"){suffix}")]


def keyworded(source: Source, argument: cst.Arg, name: str) -> list[Replacement]:
    """Return the edits that pass an argument by the keyword `name`, its value untouched."""
    if argument.keyword is not None:
        return [] if argument.keyword.value == name else [Replacement(*source.span(argument.keyword), name)]
    at = source.outer_span(argument.value)[0]
    return [Replacement(at, at, f"{name}=")]


def without_argument(source: Source, call: cst.Call, argument: cst.Arg) -> Replacement:
    """Return the deletion of one argument with the comma that parts it from another."""
    arguments = list(call.args)
    index = arguments.index(argument)
    if index:
        return Replacement(source.outer_span(arguments[index - 1].value)[1], source.outer_span(argument.value)[1], "")
    end = source.span(arguments[1])[0] if len(arguments) > 1 else source.outer_span(argument.value)[1]
    return Replacement(source.span(argument)[0], end, "")


def _deleted(_source: Source) -> set[cst.CSTNode]:
    """Statements of a file that are deleted; one set a file (`Source.derived`)."""
    return set()


def without_statement(source: Source, line: cst.SimpleStatementLine) -> Replacement:
    """Return the deletion of a statement that is alone on its line; `pass` where a block would be empty.

    A comment behind it stays, as a line of its own.
    """
    start, end = source.span(line)
    parent = source.parent(line)
    deleted = source.derived(_deleted)
    deleted.add(line)
    if isinstance(parent, cst.IndentedBlock) and all(statement in deleted for statement in parent.body):
        return Replacement(start, end, "pass")
    text = source.text
    first, last = text.line_start(start), text.line_end(max(start, end - 1))
    if text.text[first:start].strip() or text.text[end:last].strip():
        return Replacement(start, end, "")
    return Replacement(first, last, "")


def is_plain(node: cst.BaseExpression) -> bool:
    """Tell whether an expression is a name, an attribute of one, or a constant, which may be read twice or never."""
    if isinstance(node, cst.Attribute):
        return is_plain(node.value)
    return isinstance(node, (cst.Name, cst.Integer, cst.Float, cst.SimpleString))


def constant(node: cst.BaseExpression) -> object:
    """Return the value of True, False, None, a number or a tuple of these; the node itself for anything else."""
    if isinstance(node, cst.Name):
        return {"True": True, "False": False, "None": None}.get(node.value, node)
    if isinstance(node, (cst.Integer, cst.Float)):
        return node.evaluated_value
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        value = constant(node.expression)
        return -value if isinstance(value, (int, float)) else node
    if isinstance(node, cst.Tuple):
        return tuple(constant(element.value) for element in node.elements)
    return node


def has_comment(source: Source, spans: Sequence[Span]) -> bool:
    """Tell whether text that would be deleted holds a comment."""
    return any("#" in source.text.text[start:end] for start, end in spans)
