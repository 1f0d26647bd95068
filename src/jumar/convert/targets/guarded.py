"""Tells whether code runs only where an accelerator is there, from the tests around it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from jumar.convert.syntax.scopes import is_named
from jumar.convert.syntax.source import Source
from jumar.convert.syntax.tree import descendants, leaves

_ASKS = re.compile(r"cuda|gpu|npu|accelerator|is_available|device_count|device_type", re.IGNORECASE)


def is_guarded(source: Source, node: cst.CSTNode) -> bool:
    """Tell whether a test for an accelerator decides whether `node` runs.

    Only the form of the result depends on it (a call that assumes an accelerator, or one that does not),
    so names are enough: `if args.gpu is not None:` is such a test.
    """
    child: cst.CSTNode = node
    for parent in source.ancestors(node):
        if isinstance(parent, (cst.If, cst.IfExp, cst.While)) and child is not parent.test:
            if asks_for_accelerator(parent.test, positive=child is parent.body):
                return True
        elif isinstance(parent, cst.BooleanOperation) and child is parent.right:
            if asks_for_accelerator(parent.left, positive=isinstance(parent.operator, cst.And)):
                return True
        elif isinstance(parent, (cst.IndentedBlock, cst.Module)) and _left_before(parent, child):
            return True
        if isinstance(parent, (cst.FunctionDef, cst.Lambda)):
            return False
        child = parent
    return False


def asks_for_accelerator(test: cst.BaseExpression, *, positive: bool) -> bool:
    """Tell whether code that runs where `test` is true (`positive`) or false has an accelerator."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return asks_for_accelerator(test.expression, positive=not positive)
    if isinstance(test, cst.BooleanOperation):
        decides = isinstance(test.operator, cst.And) if positive else isinstance(test.operator, cst.Or)
        sides = [asks_for_accelerator(side, positive=positive) for side in (test.left, test.right)]
        return any(sides) if decides else all(sides)
    if isinstance(test, cst.Comparison):
        if not _has_constant(test):
            return False
        positive = positive != _is_negative(test)
    words = list(_words(test.func if isinstance(test, cst.Call) else test))
    if any("cpu" in word.lower() or word.lower().startswith("no_") for word in words):
        positive = not positive
    return positive and any(_ASKS.search(word) for word in words)


def _has_constant(test: cst.Comparison) -> bool:
    """Tell whether one side is written out, so that the test says something of the other."""
    constant = (cst.SimpleString, cst.Integer, cst.Tuple, cst.List, cst.Set)
    sides = (test.left, test.comparisons[0].comparator)
    return any(isinstance(side, constant) or (is_named(side, "None", "True")) for side in sides)


def _is_negative(test: cst.Comparison) -> bool:
    """Tell whether a comparison is true where the accelerator is not; `is not None` says that it is there."""
    target = test.comparisons[0]
    none = is_named(target.comparator, "None")
    zero = isinstance(target.comparator, cst.Integer) and target.comparator.value == "0"
    if none or zero:
        return isinstance(target.operator, (cst.Equal, cst.Is))
    return isinstance(target.operator, (cst.NotEqual, cst.NotIn, cst.IsNot))


def _words(node: cst.CSTNode) -> Iterator[str]:
    for found in descendants(node):
        if isinstance(found, cst.Name):
            yield found.value
        elif isinstance(found, cst.SimpleString):
            yield found.raw_value


def _left_before(block: cst.IndentedBlock | cst.Module, child: cst.CSTNode) -> bool:
    """Tell whether an earlier statement of the block leaves it where there is no accelerator."""
    for statement in block.body:
        if statement is child:
            return False
        if isinstance(statement, cst.If) and statement.orelse is None and leaves(statement.body):
            if asks_for_accelerator(statement.test, positive=False):
                return True
        elif isinstance(statement, cst.SimpleStatementLine):
            first = statement.body[0]
            if isinstance(first, cst.Assert) and asks_for_accelerator(first.test, positive=True):
                return True
    return False
