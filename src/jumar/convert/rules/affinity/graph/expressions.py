"""`Expr`: what an expression computes, independent of the names and statements it is spread over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

BINARY: dict[type[cst.BaseBinaryOp], str] = {
    cst.Add: "add", cst.Subtract: "sub", cst.Multiply: "mul", cst.Divide: "div", cst.FloorDivide: "floordiv",
    cst.MatrixMultiply: "matmul", cst.Power: "pow", cst.BitAnd: "and", cst.BitOr: "or", cst.Modulo: "mod",
}  # fmt: skip
"""Python's operators of two values, and the `op` of each."""
ARITHMETIC = frozenset(BINARY.values()) - {"matmul", "and", "or"} | {"neg"}
_OF_ALL = frozenset(BINARY.values()) - {"floordiv", "pow", "mod"} | {"masked_fill", "tuple"}


@dataclass(slots=True, eq=False)
class Definition:
    """One assignment of a variable: its statement, and the places that read what it assigned."""

    name: str
    line: cst.CSTNode
    reads: list[cst.Name] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Expr:
    """An operator applied to expressions; two are equal when they compute the same from the same values.

    `op` is the operator's canonical name: `x.view(a)`, `x.reshape(a)` and `torch.reshape(x, a)` are all `view`.
    A `leaf` is anything that is not looked into, told apart by `value`; a `constant` has its value there.
    """

    op: str
    args: tuple[Expr, ...] = ()
    options: tuple[tuple[str, Expr], ...] = ()
    value: object = None
    node: cst.BaseExpression | None = field(default=None, compare=False)
    reads: tuple[tuple[Definition, cst.Name], ...] = field(default=(), compare=False)
    """The variables this was read through, the outermost last, with their definitions."""

    def option(self, name: str) -> Expr | None:
        """Return the value given for a keyword, or None."""
        return next((value for key, value in self.options if key == name), None)

    def argument(self, index: int, name: str) -> Expr | None:
        """Return what is given at a position (0 is the tensor) or by a keyword, or None."""
        return self.args[index] if index < len(self.args) else self.option(name)

    @property
    def operands(self) -> tuple[Expr, ...]:
        """The values this is computed from, without sizes, dimensions and the like."""
        return self.args if self.op in _OF_ALL else self.args[:1]

    @property
    def parts(self) -> Iterator[Expr]:
        """The expressions this one is computed from."""
        yield from self.args
        yield from (value for _, value in self.options)


def is_constant(expr: Expr | None, *values: object) -> bool:
    """Tell whether an expression is one of these constants (1 is not True)."""
    return (
        expr is not None
        and expr.op == "constant"
        and any(expr.value == value and type(expr.value) is type(value) for value in values)
    )


def number(expr: Expr | None) -> float | None:
    """Return the number a constant is, or None."""
    if expr is None or expr.op != "constant" or not isinstance(expr.value, int | float) or isinstance(expr.value, bool):
        return None
    return expr.value


def is_op(expr: Expr | None, *names: str) -> bool:
    """Tell whether an expression applies one of these operators."""
    return expr is not None and expr.op in names


def without(expr: Expr, *names: str) -> tuple[Expr, list[Expr]]:
    """Return what is inside the operators `names` (`contiguous`), and those that were taken off."""
    removed: list[Expr] = []
    while expr.op in names and expr.args:
        removed.append(expr)
        expr = expr.args[0]
    return expr, removed
