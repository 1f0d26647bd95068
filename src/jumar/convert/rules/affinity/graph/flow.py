"""Follows straight-line code: each expression of a function with its variables replaced by their values.

A suite is followed from top to bottom. A statement with suites of its own is followed inside, too; what it
assigns is unknown afterwards. Loops are followed with everything they assign unknown from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import libcst as cst

from jumar.convert.rules.affinity.graph.expressions import BINARY, Definition, Expr
from jumar.convert.rules.affinity.graph.operators import operator_of
from jumar.convert.rules.subject.names import descendants_here, root_name
from jumar.convert.syntax.scopes import is_named, last_name
from jumar.convert.syntax.source import Source


@dataclass(slots=True)
class Environment:
    """What each variable holds at one place, and the definitions it had on the way there."""

    values: dict[str, Expr] = field(default_factory=dict)
    history: dict[str, list[Definition | None]] = field(default_factory=dict)

    def copy(self) -> Environment:
        """Return an environment that can go on by itself."""
        return Environment(dict(self.values), {name: list(items) for name, items in self.history.items()})


@dataclass(slots=True, eq=False)
class Site:
    """An expression at the place where a whole statement computes it: the right side, the result, the argument."""

    expr: Expr
    line: cst.SimpleStatementLine
    suite: tuple[cst.CSTNode, ...]
    history: dict[str, list[Definition | None]]
    """The definitions each variable had before this statement."""


class Flow:
    """Follows one function. `sites` are the expressions its statements compute, inner ones included."""

    def __init__(self, source: Source, function: cst.FunctionDef) -> None:
        self._source = source
        self.function = function
        self.sites: list[Site] = []
        self.result: Expr | None = None
        """What the function returns, where that is its last statement."""
        self.origin: dict[cst.Name, Definition | None] = {}
        """The definition each variable had where it was read."""
        self._current: tuple[cst.SimpleStatementLine, tuple[cst.CSTNode, ...], dict[str, list[Definition | None]]]
        if isinstance(function.body, cst.IndentedBlock):
            self._suite(tuple(function.body.body), Environment())

    def _suite(self, statements: tuple[cst.CSTNode, ...], environment: Environment) -> None:
        for statement in statements:
            if isinstance(statement, cst.SimpleStatementLine):
                self._line(statement, statements, environment)
            elif not isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
                self._compound(statement, environment)
            else:
                self._forget(statement, environment)

    def _compound(self, statement: cst.CSTNode, environment: Environment) -> None:
        if isinstance(statement, (cst.For, cst.While, cst.Try, cst.Match)):
            self._forget(statement, environment)
        for block in _blocks(statement):
            self._suite(tuple(block.body), environment.copy())
        self._forget(statement, environment)

    def _forget(self, statement: cst.CSTNode, environment: Environment) -> None:
        for node in descendants_here(statement):
            if isinstance(node, cst.Name) and node in self._source.tree.stored:
                self._bind(node.value, None, Definition(node.value, statement), environment)

    def _bind(self, name: str, value: Expr | None, definition: Definition, environment: Environment) -> None:
        environment.history.setdefault(name, [None]).append(definition)
        held = value or Expr("leaf", value=(name, id(definition)))
        environment.values[name] = held

    def _line(self, line: cst.SimpleStatementLine, suite: tuple[cst.CSTNode, ...], environment: Environment) -> None:
        self._current = (line, suite, {name: list(items) for name, items in environment.history.items()})
        for statement in line.body:
            if isinstance(statement, cst.Assign):
                value = self._evaluate(statement.value, environment)
                for target in statement.targets:
                    self._assign(target.target, value, line, environment)
            elif isinstance(statement, (cst.Return, cst.Expr)) and statement.value is not None:
                value = self._evaluate(statement.value, environment)
                if isinstance(statement, cst.Return):
                    self.result = value
            elif isinstance(statement, cst.AugAssign):
                self._augmented(statement, line, environment)
            else:
                self._forget(statement, environment)
            self._changed_in_place(statement, line, environment)

    def _changed_in_place(
        self, statement: cst.CSTNode, line: cst.SimpleStatementLine, environment: Environment
    ) -> None:
        """Forget what a variable holds whose tensor is written to: `x.add_(1)`, `x[0] = 1`."""
        for node in descendants_here(statement):
            target = _written(node) if isinstance(node, cst.Call) or node in self._source.tree.stored else None
            name = root_name(target) if target is not None else None
            if name is not None:
                self._bind(name.value, None, Definition(name.value, line), environment)

    def _augmented(self, node: cst.AugAssign, line: cst.SimpleStatementLine, environment: Environment) -> None:
        """Follow `x += y`: x is read, and unknown afterwards, because a tensor changes in place."""
        self._evaluate(node.value, environment)
        if isinstance(node.target, cst.Name):
            self._evaluate(node.target, environment)
            self._bind(node.target.value, None, Definition(node.target.value, line), environment)

    def _assign(
        self, target: cst.CSTNode, value: Expr, line: cst.SimpleStatementLine, environment: Environment
    ) -> None:
        if isinstance(target, cst.Name):
            self._bind(target.value, value, Definition(target.value, line), environment)
        elif isinstance(target, (cst.Tuple, cst.List)):
            for index, element in enumerate(target.elements):
                self._assign(element.value, _item(value, index), line, environment)
        else:
            self._evaluate_inside(target, environment)

    def _evaluate_inside(self, node: cst.CSTNode, environment: Environment) -> None:
        for found in descendants_here(node):
            if isinstance(found, cst.Name):
                self._read(found, environment)

    def _read(self, node: cst.Name, environment: Environment) -> Expr:
        definitions = environment.history.get(node.value)
        definition = definitions[-1] if definitions else None
        self.origin[node] = definition
        if definition is None:
            return Expr("leaf", value=node.value, node=node)
        definition.reads.append(node)
        held = environment.values[node.value]
        return replace(held, node=held.node or node, reads=(*held.reads, (definition, node)))

    def _evaluate(self, node: cst.BaseExpression, environment: Environment) -> Expr:
        expr = self._value(node, environment)
        line, suite, history = self._current
        if expr.node is node and expr.op not in ("leaf", "constant"):
            self.sites.append(Site(expr, line, suite, history))
        return expr

    def _value(self, node: cst.BaseExpression, environment: Environment) -> Expr:
        constant = _constant(node)
        if constant is not None:
            return constant
        handler = self._handlers.get(type(node), Flow._opaque)
        return handler(self, node, environment)

    def _binary(self, node: cst.BinaryOperation, environment: Environment) -> Expr:
        left, right = self._evaluate(node.left, environment), self._evaluate(node.right, environment)
        return Expr(BINARY.get(type(node.operator), "leaf"), (left, right), value=_other(node), node=node)

    def _unary(self, node: cst.UnaryOperation, environment: Environment) -> Expr:
        if not isinstance(node.operator, cst.Minus):
            return self._opaque(node, environment)
        return Expr("neg", (self._evaluate(node.expression, environment),), node=node)

    def _tuple(self, node: cst.Tuple | cst.List, environment: Environment) -> Expr:
        return Expr("tuple", tuple(self._evaluate(part.value, environment) for part in node.elements), node=node)

    def _attribute(self, node: cst.Attribute, environment: Environment) -> Expr:
        if node.attr.value not in ("shape", "data"):
            return self._opaque(node, environment)
        inner = self._evaluate(node.value, environment)
        return inner if node.attr.value == "data" else Expr("shape", (inner,), node=node)

    def _subscript(self, node: cst.Subscript, environment: Environment) -> Expr:
        inner = self._evaluate(node.value, environment)
        slices = tuple(self._slice(element.slice, environment) for element in node.slice)
        if len(slices) == 1 and isinstance(slices[0].value, int) and slices[0].op == "constant":
            return replace(_item(inner, slices[0].value), node=node)
        return Expr("index", (inner, *slices), value=_squeezed(self._source, node.slice), node=node)

    def _slice(self, node: cst.BaseSlice, environment: Environment) -> Expr:
        if isinstance(node, cst.Index):
            return self._evaluate(node.value, environment)
        assert isinstance(node, cst.Slice)
        absent = Expr("constant", value=None)
        bounds = (node.lower, node.upper, node.step)
        return Expr("slice", tuple(absent if part is None else self._evaluate(part, environment) for part in bounds))

    def _call(self, node: cst.Call, environment: Environment) -> Expr:
        operator = operator_of(self._source, node)
        if operator is None or any(arg.star for arg in node.args):
            return self._opaque(node, environment)
        receiver = (operator.receiver,) if operator.receiver is not None else ()
        given = [*receiver, *(arg.value for arg in node.args if arg.keyword is None)]
        args = tuple(self._evaluate(value, environment) for value in given)
        options = tuple(
            (arg.keyword.value, self._evaluate(arg.value, environment)) for arg in node.args if arg.keyword is not None
        )
        fixed = tuple((key, Expr("constant", value=value)) for key, value in operator.options)
        return _canonical(Expr(operator.name, args, (*options, *fixed), value=operator.module, node=node))

    _handlers: ClassVar[dict[type[cst.BaseExpression], Callable[[Flow, Any, Environment], Expr]]]

    def _opaque(self, node: cst.BaseExpression, environment: Environment) -> Expr:
        """Return an expression that is not looked into; it equals another of the same text and variables."""
        variables: list[object] = []
        for found in descendants_here(node):
            if isinstance(found, cst.Name):
                read = self._read(found, environment)
                variables.append(id(read.reads[-1][0]) if read.reads else None)
        return Expr("leaf", value=(_squeezed(self._source, [node]), *variables), node=node)


Flow._handlers = {
    cst.Name: Flow._read,
    cst.BinaryOperation: Flow._binary,
    cst.UnaryOperation: Flow._unary,
    cst.Tuple: Flow._tuple,
    cst.List: Flow._tuple,
    cst.Attribute: Flow._attribute,
    cst.Subscript: Flow._subscript,
    cst.Call: Flow._call,
}


def _written(node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the tensor that a call `x.add_(1)` or a target `x[0]` writes to."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value.endswith("_"):
        return node.func.value
    return node.value if isinstance(node, cst.Subscript) else None


def _blocks(statement: cst.CSTNode) -> Iterator[cst.IndentedBlock]:
    """Yield the suites of a compound statement, those of its `elif` and `else` included."""
    body = getattr(statement, "body", None)
    if isinstance(body, cst.IndentedBlock):
        yield body
    for name in ("orelse", "finalbody"):
        part = getattr(statement, name, None)
        if part is not None:
            yield from _blocks(part)
    for handler in getattr(statement, "handlers", ()):
        yield from _blocks(handler)


def _constant(node: cst.BaseExpression) -> Expr | None:
    if isinstance(node, (cst.Integer, cst.Float, cst.SimpleString)):
        return Expr("constant", value=node.evaluated_value, node=node)
    if isinstance(node, cst.Ellipsis):
        return Expr("constant", value=..., node=node)
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        inner = _constant(node.expression)
        if inner is not None and isinstance(inner.value, int | float):
            return Expr("constant", value=-inner.value, node=node)
    if is_named(node, "True", "False", "None"):
        return Expr("constant", value={"True": True, "False": False, "None": None}[last_name(node)], node=node)
    return None


def _other(node: cst.BinaryOperation) -> object:
    return None if type(node.operator) in BINARY else type(node.operator).__name__


def _item(value: Expr, index: int) -> Expr:
    """Return one item of a tuple, of a shape, of chunks."""
    if value.op == "tuple" and -len(value.args) <= index < len(value.args):
        return value.args[index]
    op = "dim" if value.op == "shape" else "item"
    tensor = value.args if value.op == "shape" else (value,)
    return Expr(op, (*tensor, Expr("constant", value=index)), node=None, reads=())


def _canonical(expr: Expr) -> Expr:
    """Write sizes alike: `x.size(1)`, `x.shape[1]`, an item of `x.size()`."""
    if expr.op == "size":
        if len(expr.args) == 1 and not expr.options:
            return replace(expr, op="shape")
        dim = expr.argument(1, "dim")
        return Expr("dim", (expr.args[0], dim), node=expr.node) if dim is not None else expr
    return expr


def _squeezed(source: Source, nodes: object) -> str:
    assert isinstance(nodes, (list, tuple))
    return ",".join("".join(source.code(node).split()) for node in nodes)
