"""Tells how an expression is filled in, and whether it may stay unevaluated."""

from __future__ import annotations

import libcst as cst

from jumar.convert.syntax.source import Source
from jumar.convert.syntax.tree import syntax_children

_CONVERSIONS = ("builtins.str", "builtins.int", "builtins.repr")
_PLAIN = (
    cst.Name, cst.Integer, cst.SimpleString, cst.FormattedString, cst.FormattedStringText, cst.Attribute,
    cst.FormattedStringExpression, cst.BinaryOperation, cst.BaseBinaryOp, cst.Tuple, cst.Element,
)  # fmt: skip


def filled_in(source: Source, node: cst.BaseExpression) -> cst.BaseExpression:
    """Return the expression that fills in a string: `'cuda:{}'.format(i)`, `'cuda:%d' % i`, `'cuda:' + str(i)`."""
    parent = source.parent(node)
    if isinstance(parent, cst.BinaryOperation):
        return filled_in(source, parent)
    if isinstance(parent, cst.Attribute) and parent.attr.value == "format":
        call = source.parent(parent)
        return call if isinstance(call, cst.Call) else node
    return node


def is_pure(source: Source, node: cst.CSTNode) -> bool:
    """Tell whether leaving an expression unevaluated changes nothing: names, literals, text made of them."""
    if isinstance(node, cst.Call):
        is_format = isinstance(node.func, cst.Attribute) and isinstance(node.func.value, cst.SimpleString)
        if not is_format and source.qualified(node.func) not in _CONVERSIONS:
            return False
        return all(not arg.star and is_pure(source, arg.value) for arg in node.args)
    return isinstance(node, _PLAIN) and all(is_pure(source, child) for child in syntax_children(node))
