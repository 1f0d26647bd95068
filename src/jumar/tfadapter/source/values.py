"""`Values`: what an expression of a script is, where its source tells; nothing is run."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from jumar.tfadapter.options import UNKNOWN

_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv, ast.Mod: operator.mod, ast.LShift: operator.lshift, ast.Pow: operator.pow,
}  # fmt: skip
_LARGEST = 1 << 80
_SAME_TEXT = {"as_str", "as_text", "as_str_any"}
"""Functions of `tf.compat` that give their argument back in another type."""
_CONVERSIONS: Mapping[str, type] = {"str": str, "int": int, "float": float, "bool": bool}


class Values:
    """The values that names have in a module or a function, and those of the scope around it."""

    def __init__(self, around: Values | None = None) -> None:
        self._around = around
        self._known: dict[str, Any] = {}

    def bind(self, name: str, value: Any) -> None:
        """Note a value. A name that gets a second value is not known from then on: which one holds is not followed."""
        if name in self._known and not _same(self._known[name], value):
            value = UNKNOWN
        self._known[name] = value

    def of(self, name: str) -> Any:
        """Return the value of a name, or UNKNOWN."""
        if name in self._known:
            return self._known[name]
        return self._around.of(name) if self._around is not None else UNKNOWN

    def value(self, node: ast.expr | None) -> Any:
        """Return the value of an expression: a number, a text, bytes, a bool, None, a list, a dict, or UNKNOWN."""
        try:
            return self._value(node)
        except (ArithmeticError, TypeError, ValueError, UnicodeError, RecursionError):
            return UNKNOWN

    def _value(self, node: ast.expr | None) -> Any:
        match node:
            case ast.Constant():
                found: Any = node.value
            case ast.Name():
                found = self.of(node.id)
            case ast.BinOp():
                found = self._arithmetic(node.op, self._value(node.left), self._value(node.right))
            case ast.UnaryOp(op=ast.USub()):
                value = self._value(node.operand)
                found = -value if isinstance(value, (int, float)) else UNKNOWN
            case ast.UnaryOp(op=ast.Not()):
                value = self._value(node.operand)
                found = UNKNOWN if value is UNKNOWN else not value
            case ast.List() | ast.Tuple():
                found = [self._value(item) for item in node.elts]
            case ast.Dict():
                pairs = zip(node.keys, node.values, strict=True)
                found = {_key(self._value(key)): self._value(item) for key, item in pairs}
            case ast.JoinedStr():
                found = self._joined(node.values)
            case ast.Call():
                found = self._call(node)
            case _:
                found = UNKNOWN
        return found

    def _arithmetic(self, op: ast.operator, left: Any, right: Any) -> Any:
        known = _OPERATORS.get(type(op))
        if known is None or left is UNKNOWN or right is UNKNOWN:
            return UNKNOWN
        numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
        texts = isinstance(left, (str, bytes)) and type(left) is type(right) and isinstance(op, ast.Add)
        if not (numbers or texts):
            return UNKNOWN
        if isinstance(op, (ast.Pow, ast.LShift)) and (abs(right) > 64 or abs(left) > _LARGEST):
            return UNKNOWN
        return known(left, right)

    def _joined(self, parts: list[ast.expr]) -> Any:
        texts = []
        for part in parts:
            inner = part.value if isinstance(part, ast.FormattedValue) else part
            value = self._value(inner)
            if value is UNKNOWN or (isinstance(part, ast.FormattedValue) and part.format_spec is not None):
                return UNKNOWN
            texts.append(str(value))
        return "".join(texts)

    def _call(self, node: ast.Call) -> Any:
        function, arguments = node.func, [self._value(argument) for argument in node.args]
        if any(one is UNKNOWN for one in arguments):
            return UNKNOWN
        first = arguments[0] if arguments else UNKNOWN
        match function:
            case ast.Attribute(attr="as_bytes"):
                found: Any = first.encode() if isinstance(first, str) else first
            case ast.Attribute(attr=name) if name in _SAME_TEXT:
                found = first
            case ast.Attribute(attr="encode"):
                text = self._value(function.value)
                found = text.encode() if isinstance(text, str) else UNKNOWN
            case ast.Name(id=name) if name in _CONVERSIONS and len(arguments) == 1:
                found = _CONVERSIONS[name](first)
            case ast.Name(id="bytes") if isinstance(first, (str, bytes)):
                found = first.encode() if isinstance(first, str) else first
            case ast.Name(id="dict") if not arguments:
                found = {word.arg: self._value(word.value) for word in node.keywords if word.arg is not None}
            case _:
                found = UNKNOWN
        return found


def _key(value: Any) -> Any:
    return value if isinstance(value, (str, int, bytes)) else UNKNOWN


def _same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and bool(left == right)
