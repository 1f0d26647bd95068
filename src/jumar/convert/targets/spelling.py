"""Adds parentheses, a space or another quote where new text needs them."""

from __future__ import annotations

import re
from typing import Literal as OneOf

import libcst as cst

from jumar.convert.model.edits import Replacement
from jumar.convert.model.spans import Span
from jumar.convert.syntax.source import Source

Strength = OneOf["comparison", "and", "conditional", "lambda"]
"""How tightly an expression binds: `a != b`, `a and b`, `a if b else c`, `lambda: a`."""

_GAP = re.compile(r"(?:\s|\\\r?\n|#[^\r\n]*)*")
_OPERATOR = re.compile(r"==|!=|not(?:\s|\\\r?\n)+in\b|in\b|is(?:\s|\\\r?\n)+not\b|is\b|<=|>=|<|>")

_LOOSE = (
    cst.Assign, cst.AugAssign, cst.AnnAssign, cst.NamedExpr, cst.Return, cst.Assert, cst.Expr, cst.Element,
    cst.DictElement, cst.Index, cst.Param, cst.Yield, cst.Lambda, cst.If, cst.While, cst.For, cst.WithItem, cst.Raise,
    cst.FormattedStringExpression,
)  # fmt: skip
"""Parents whose child may be any expression."""


def needs_parentheses(source: Source, node: cst.BaseExpression, strength: Strength) -> bool:
    """Tell whether an expression of this strength in place of the name or call `node` needs parentheses."""
    if node.lpar:
        return False
    parent = source.parent(node)
    if isinstance(parent, cst.Arg):
        return bool(parent.star)
    if isinstance(parent, _LOOSE):
        return strength == "lambda" and isinstance(parent, (cst.FormattedStringExpression, cst.Expr))
    if isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not):
        return strength != "comparison"
    if isinstance(parent, (cst.BooleanOperation, cst.CompIf, cst.IfExp)):
        return strength in ("conditional", "lambda")
    return not (isinstance(parent, (cst.ListComp, cst.SetComp, cst.GeneratorExp)) and parent.elt is node)


def around(source: Source, node: cst.BaseExpression, strength: Strength) -> tuple[str, str]:
    """Return what to put before and after an expression of this strength that takes the place of `node`."""
    return ("(", ")") if needs_parentheses(source, node, strength) else ("", "")


def spaced(source: Source, span: Span, text: str) -> Replacement:
    """Return the replacement of `span` by `text`, kept apart from words it would grow together with."""
    whole = source.text.text
    start, end = span
    before = " " if start and _is_word(whole[start - 1]) and _is_word(text[0]) else ""
    after = " " if end < len(whole) and _is_word(whole[end]) and _is_word(text[-1]) else ""
    return Replacement(start, end, f"{before}{text}{after}")


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def operator_span(source: Source, node: cst.Comparison) -> Span:
    """Return the span of a comparison's first operator; comments around it are not mistaken for it."""
    text = source.text.text
    start = source.outer_span(node.left)[1]
    gap = _GAP.match(text, start)
    assert gap is not None
    found = _OPERATOR.match(text, gap.end())
    assert found is not None, text[start : start + 20]
    return found.span()


def quote_at(source: Source, node: cst.CSTNode, quote: str) -> str:
    """Return a quote for a literal beside `node`: `quote`, or the other one inside an f-string that uses it."""
    outer = source.enclosing(node, cst.FormattedString)
    if outer is None or quote not in outer.end:
        return quote
    return '"' if quote == "'" else "'"
