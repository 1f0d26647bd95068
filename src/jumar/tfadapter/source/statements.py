"""`Statements`: walks the statements of a module, and of its functions with what their calls give."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from jumar.tfadapter.options import UNKNOWN
from jumar.tfadapter.options.option import FUNCTION
from jumar.tfadapter.source.calls import CLASSES, note_call
from jumar.tfadapter.source.expressions.bindings import bind_body
from jumar.tfadapter.source.expressions.nodes import FUNCTIONS, arguments_of, pairs_of, parameters_of, stored_names
from jumar.tfadapter.source.expressions.place import Place
from jumar.tfadapter.source.expressions.values import Values
from jumar.tfadapter.source.notes import Notes

_MOST_TURNS = 50
_SETTING = frozenset({*CLASSES, "parameter_map", "global_options", "environ", "putenv"})
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Around = tuple[_Function | ast.ClassDef, ...]
"""The functions and classes that a node stands in, from the outermost."""


class Statements:
    """Reads statements into notes. A function with parameters that sets options is read once for each of its calls."""

    def __init__(self, notes: Notes, tree: ast.Module, module: Values) -> None:
        self._notes, self._module = notes, module
        functions = {node.name for node in ast.walk(tree) if isinstance(node, FUNCTIONS)}
        self._calls: dict[str, list[tuple[ast.Call, _Around]]] = {}
        for call, around in _calls_within(tree, ()):
            if isinstance(call.func, ast.Name) and call.func.id in functions:
                self._calls.setdefault(call.func.id, []).append((call, around))

    def read(self, body: Sequence[ast.stmt], place: Place) -> None:
        """Read the statements of a block."""
        for node in body:
            self._statement(node, place)

    def _statement(self, node: ast.stmt, place: Place) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node, place)
            case ast.ClassDef(body=body):
                inner = Values(place.values)
                bind_body(body, inner)
                self.read(body, Place(inner, f"{place.scope}{node.name}.", place.branch))
            case ast.For() | ast.AsyncFor():
                self._loop(node, place)
            case ast.Assign(targets=targets, value=value):
                self._expressions(value, place)
                for target in targets:
                    for one, given in pairs_of(target, value):
                        self._assigned(one, given, place, node.lineno)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._expressions(value, place)
                self._assigned(target, value, place, node.lineno)
            case _:
                self._block(node, place)

    def _block(self, node: ast.stmt, place: Place) -> None:
        """Read the blocks of a statement; one without blocks is an expression."""
        match node:
            case ast.If(test=test, body=body, orelse=other):
                self._expressions(test, place)
                self.read(body, place.within(node.lineno, 0))
                self.read(other, place.within(node.lineno, 1))
            case ast.Match(subject=subject, cases=cases):
                self._expressions(subject, place)
                for number, case in enumerate(cases):
                    self.read(case.body, place.within(node.lineno, number))
            case ast.While(body=body, orelse=other):
                self.read([*body, *other], place)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                for item in items:
                    self._expressions(item.context_expr, place)
                self.read(body, place)
            case ast.Try(body=body, handlers=handlers, orelse=other, finalbody=last):
                self.read([*body, *other, *last], place)
                for number, handler in enumerate(handlers, 1):
                    self.read(handler.body, place.within(node.lineno, number))
            case _:
                self._expressions(node, place)

    def _assigned(self, target: ast.expr, value: ast.expr, place: Place, line: int) -> None:
        match target:
            case ast.Name():
                self._notes.name(target, value, place.scope)
            case ast.Attribute(value=owner, attr=attribute):
                self._notes.set_attribute(owner, attribute, value, place, line)
                self._notes.name(target, value, place.scope)
            case ast.Subscript(value=owner, slice=index):
                if self._notes.text(owner, place.scope).endswith("environ"):
                    name, known = place.values.value(index), place.values.value(value)
                    self._notes.set("environment", name, known, place, line, "environment", node=value)

    def _expressions(self, node: ast.AST, place: Place) -> None:
        for call in [one for one in ast.walk(node) if isinstance(one, ast.Call)]:
            note_call(call, self._notes, place)

    # --- functions and loops

    def _function(self, node: _Function, place: Place) -> None:
        parameters = parameters_of(node)
        calls = self._calls.get(node.name, []) if parameters and _sets_options(node) else []
        if not calls:
            inner = Values(place.values)
            for name in parameters:
                inner.bind(name, UNKNOWN)
            bind_body(node.body, inner)
            self.read(node.body, Place(inner, f"{place.scope}{node.name}.", (*place.branch, (node.lineno, FUNCTION))))
        for call, around in calls[:_MOST_TURNS]:
            self._called(node, call, around, place)

    def _called(self, node: _Function, call: ast.Call, around: _Around, place: Place) -> None:
        """Read a function with what one call gives to its parameters."""
        parameters = parameters_of(node)
        given = arguments_of(call, list(parameters))
        caller, inner = self._values_in(around), Values(place.values)
        stars = any(isinstance(one, ast.Starred) for one in call.args) or any(one.arg is None for one in call.keywords)
        told = not stars and not node.decorator_list
        scope = f"{place.scope}{node.name}({call.lineno}:{call.col_offset})."
        for name, default in parameters.items():
            if name in given:
                inner.bind(name, caller.value(given[name]))
            else:  # a decorator may give other defaults
                inner.bind(name, place.values.value(default) if told and default is not None else UNKNOWN)
        bind_body(node.body, inner)
        for name, argument in given.items():
            if isinstance(argument, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
                self._notes.give(name, argument, "".join(f"{one.name}." for one in around), scope)
        self.read(node.body, Place(inner, scope, (*place.branch, (node.lineno, FUNCTION))))

    def _values_in(self, around: _Around) -> Values:
        """Return the values of names inside functions and classes; those of parameters are not known."""
        values = self._module
        for node in around:
            values = Values(values)
            for name in parameters_of(node) if not isinstance(node, ast.ClassDef) else ():
                values.bind(name, UNKNOWN)
            bind_body(node.body, values)
        return values

    def _loop(self, node: ast.For | ast.AsyncFor, place: Place) -> None:
        """Read a loop over a literal dict or list once for each of its items, another loop once."""
        items = place.values.value(node.iter)
        self._expressions(node.iter, place)
        if not isinstance(items, (list, tuple, dict)) or not 0 < len(items) <= _MOST_TURNS:
            self.read([*node.body, *node.orelse], place)
            return
        for item in items:
            inner = Values(place.values)
            _bind_item(node.target, item, inner)
            bind_body(node.body, inner)
            self.read(node.body, place.knowing(inner))
        self.read(node.orelse, place)


def _bind_item(target: ast.expr, item: Any, values: Values) -> None:
    """Bind the names of a loop's target to one item: `for name, (kind, value) in …`."""
    if isinstance(target, ast.Name):
        values.bind(target.id, item)
    elif (
        isinstance(target, (ast.Tuple, ast.List))
        and isinstance(item, (list, tuple))
        and len(item) == len(target.elts)
        and not any(isinstance(one, ast.Starred) for one in target.elts)
    ):
        for one, part in zip(target.elts, item, strict=True):
            _bind_item(one, part, values)
    else:
        for name in stored_names(target):
            values.bind(name, UNKNOWN)


def _sets_options(node: ast.AST) -> bool:
    """Tell whether a function sets an option itself."""
    return any(
        (isinstance(one, ast.Attribute) and one.attr in _SETTING) or (isinstance(one, ast.Name) and one.id in _SETTING)
        for one in ast.walk(node)
    )


def _calls_within(node: ast.AST, around: _Around) -> Iterator[tuple[ast.Call, _Around]]:
    """Yield every call with what it stands in."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield child, around
        yield from _calls_within(child, (*around, child) if isinstance(child, (*FUNCTIONS, ast.ClassDef)) else around)
