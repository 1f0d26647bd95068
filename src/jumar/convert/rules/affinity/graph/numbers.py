"""Tells whether an expression is a plain number of Python. Tensors and parameters are not."""

from __future__ import annotations

import libcst as cst

from jumar.convert.rules.affinity.graph.expressions import ARITHMETIC, Expr
from jumar.convert.rules.affinity.graph.operators import assigned_in_class
from jumar.convert.rules.subject.names import words_of
from jumar.convert.syntax.source import Source

_SIZE_WORDS = frozenset(
    {
        "dim",
        "dims",
        "heads",
        "head",
        "size",
        "channels",
        "channel",
        "hidden",
        "embed",
        "width",
        "d",
        "dk",
        "k",
        "n",
        "num",
    }
    | {"features", "scale", "factor", "length", "key", "query", "qk", "in", "out", "model", "inner"}
)
_FUNCTIONS = ("math.", "builtins.float", "builtins.int", "builtins.round", "numpy.sqrt")
_MAX_DEPTH = 4


def is_number_expression(source: Source, expr: Expr) -> bool:
    """Tell whether an expression is a number: constants, sizes, arithmetic of such, attributes that are set to such."""
    if expr.op in ("constant", "dim"):
        return True
    if expr.op in ARITHMETIC:
        return all(is_number_expression(source, part) for part in expr.args)
    return expr.op == "leaf" and expr.node is not None and _is_number(source, expr.node, 0)


def _is_number(source: Source, node: cst.BaseExpression, depth: int) -> bool:
    if depth > _MAX_DEPTH:
        return False
    if isinstance(node, (cst.BinaryOperation, cst.BooleanOperation)):
        right = _is_number(source, node.right, depth)
        return right and (isinstance(node, cst.BooleanOperation) or _is_number(source, node.left, depth))
    if isinstance(node, cst.UnaryOperation):
        return _is_number(source, node.expression, depth)
    if isinstance(node, cst.IfExp):
        return _is_number(source, node.body, depth) and _is_number(source, node.orelse, depth)
    if isinstance(node, cst.Call):
        return (source.qualified(node.func) or "").startswith(_FUNCTIONS)
    return isinstance(node, (cst.Integer, cst.Float)) or _is_named_number(source, node, depth)


def _is_named_number(source: Source, node: cst.BaseExpression, depth: int) -> bool:
    values: list[cst.BaseExpression] = []
    if isinstance(node, cst.Attribute):
        around = source.enclosing(node, cst.ClassDef)
        values = assigned_in_class(source, around, node.attr.value) if around is not None else []
    elif isinstance(node, cst.Name):
        bindings = source.scope(node).bindings_of(node.value)
        values = [binding.value for binding in bindings if binding.value is not None]
        if not values:
            return words_of(node.value) <= _SIZE_WORDS
    return bool(values) and all(_is_number(source, value, depth + 1) for value in values)
