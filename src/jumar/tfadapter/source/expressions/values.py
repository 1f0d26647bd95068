"""`Values`: what an expression of a script is, where its source tells; nothing is run."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from jumar.tfadapter.options import UNKNOWN
from jumar.tfadapter.source.expressions.flags import Flags
from jumar.tfadapter.source.expressions.functions import call_value, formatted, percent
from jumar.tfadapter.source.expressions.nodes import dotted_name

_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv, ast.Mod: operator.mod, ast.LShift: operator.lshift, ast.Pow: operator.pow,
}  # fmt: skip
_LARGEST = 1 << 80


class Values:
    """The values that names have in a module or a function, and those of the scope around it."""

    def __init__(self, around: Values | None = None, flags: Flags | None = None) -> None:
        self._around = around
        self._flags = flags
        self._known: dict[str, Any] = {}

    def with_flags(self, flags: Flags) -> Values:
        """Return these values for a command line that sets no flag."""
        return Values(self, flags)

    def bind(self, name: str, value: Any) -> None:
        """Note a value. A name that gets a second value is not known from then on: which one holds is not followed."""
        if name in self._known and not _same(self._known[name], value):
            value = UNKNOWN
        self._known[name] = value

    def change(self, name: str, key: Any, value: Any) -> None:
        """Note `name[key] = value`. A key that gets a second value is not known; a dict with an unknown key neither."""
        known = self.of(name)
        if not isinstance(known, dict) or key is UNKNOWN:
            self._known[name] = UNKNOWN
        else:
            old = known.get(key, value)
            self._known[name] = known | {key: value if _same(old, value) else UNKNOWN}

    def forget(self, name: str) -> None:
        """Note that a name's value is not known."""
        self._known[name] = UNKNOWN

    def own(self) -> list[tuple[str, Any]]:
        """Return the names of this scope with their values."""
        return list(self._known.items())

    def of(self, name: str) -> Any:
        """Return the value of a name, or UNKNOWN."""
        if name in self._known:
            return self._known[name]
        found = self._around.of(name) if self._around is not None else UNKNOWN
        return self._flags.of(name) if found is UNKNOWN and self._flags is not None else found

    def value(self, node: ast.expr | None) -> Any:
        """Return the value of an expression: a number, a text, bytes, a bool, None, a list, a dict, or UNKNOWN."""
        try:
            return self._value(node)
        except (ArithmeticError, LookupError, TypeError, ValueError, UnicodeError, RecursionError, MemoryError):
            return UNKNOWN

    def _value(self, node: ast.expr | None) -> Any:
        found: Any = UNKNOWN
        match node:
            case ast.Constant(value=value):
                found = value if value is None or isinstance(value, (str, bytes, int, float)) else UNKNOWN
            case ast.Name() | ast.Attribute():
                found = self.of(dotted_name(node))
            case ast.BinOp():
                found = _arithmetic(node.op, self._value(node.left), self._value(node.right))
            case ast.UnaryOp():
                found = _unary(node.op, self._value(node.operand))
            case ast.List():
                found = [self._value(item) for item in node.elts]
            case ast.Tuple():
                found = tuple(self._value(item) for item in node.elts)
            case ast.Dict():
                found = self._dict(node)
            case ast.JoinedStr():
                found = self._joined(node.values)
            case ast.IfExp():
                found = self._either(node)
            case ast.Subscript():
                found = _item(self._value(node.value), self._value(node.slice))
            case ast.Call():
                found = call_value(node, self._value)
        return found

    def _dict(self, node: ast.Dict) -> Any:
        found: dict[Any, Any] = {}
        for key, item in zip(node.keys, node.values, strict=True):
            if key is not None:
                known = self._value(key)
                found[known if isinstance(known, (str, int, bytes)) else UNKNOWN] = self._value(item)
                continue
            inner = self._value(item)
            if not isinstance(inner, dict):
                return UNKNOWN
            found |= inner
        return found

    def _either(self, node: ast.IfExp) -> Any:
        """Return the value of `a if test else b`, where the test is known or both are the same."""
        test, first, second = self._value(node.test), self._value(node.body), self._value(node.orelse)
        if test is not UNKNOWN:
            return first if test else second
        return first if _same(first, second) else UNKNOWN

    def _joined(self, parts: list[ast.expr]) -> Any:
        texts = []
        for part in parts:
            if not isinstance(part, ast.FormattedValue):
                texts.append(str(self._value(part)))
                continue
            how = self._value(part.format_spec) if part.format_spec is not None else ""
            text = formatted(self._value(part.value), part.conversion, how)
            if text is UNKNOWN:
                return UNKNOWN
            texts.append(text)
        return "".join(texts)


def _arithmetic(op: ast.operator, left: Any, right: Any) -> Any:
    known = _OPERATORS.get(type(op))
    if known is None or left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    if isinstance(op, ast.Mod) and isinstance(left, (str, bytes)):
        return percent(left, right)
    numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
    same = isinstance(left, (str, bytes, list, tuple)) and type(left) is type(right) and isinstance(op, ast.Add)
    if not (numbers or same):
        return UNKNOWN
    if isinstance(op, (ast.Pow, ast.LShift)) and (abs(right) > 64 or abs(left) > _LARGEST):
        return UNKNOWN
    return known(left, right)


def _item(known: Any, key: Any) -> Any:
    if isinstance(known, dict):
        return known.get(key, UNKNOWN) if key is not UNKNOWN else UNKNOWN
    return known[key] if isinstance(known, (list, tuple)) and isinstance(key, int) else UNKNOWN


def _unary(op: ast.unaryop, value: Any) -> Any:
    if value is UNKNOWN:
        return UNKNOWN
    if isinstance(op, ast.USub) and isinstance(value, (int, float)):
        return -value
    return not value if isinstance(op, ast.Not) else UNKNOWN


def _same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and bool(left == right)
