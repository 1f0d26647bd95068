"""`bind_body`: the values of names that the statements of a module or a function assign."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from jumar.tfadapter.options import UNKNOWN
from jumar.tfadapter.source.expressions.nodes import dotted_name, own_statements, pairs_of, stored_names
from jumar.tfadapter.source.expressions.values import Values

_CHANGING = frozenset({"update", "pop", "popitem", "setdefault", "clear", "append", "extend", "insert", "remove"})


def bind_module(tree: ast.Module, values: Values) -> None:
    """Note the values of a module's names, and of its classes' constants; what a function changes is not known."""
    _forget_changed(tree, values)
    bind_body(tree.body, values)
    _forget_changed(tree, values)


def _forget_changed(tree: ast.Module, values: Values) -> None:
    """Forget `config.mode` where anything assigns to it, and names that a function calls global."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            for name in node.names:
                values.forget(name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = dotted_name(node)
            if values.of(name) is not UNKNOWN:
                values.forget(name)


def bind_body(body: Sequence[ast.stmt], values: Values) -> None:
    """Note the values of names that are assigned in a body, without the functions in it."""
    for node in own_statements(body):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    for one, given in pairs_of(target, value):
                        _bind_target(one, given, values)
            case ast.AnnAssign(target=target, value=ast.expr() as given):
                _bind_target(target, given, values)
            case ast.AugAssign(target=target) | ast.For(target=target) | ast.AsyncFor(target=target):
                _forget(target, values)
            case ast.With(items=items) | ast.AsyncWith(items=items):
                for item in items:
                    if item.optional_vars is not None:
                        _forget(item.optional_vars, values)
            case _:
                _bind_other(node, values)


def _bind_other(node: ast.stmt, values: Values) -> None:
    match node:
        case ast.Delete(targets=targets):
            for target in targets:
                _forget_owner(target, values)
        case ast.Expr(value=ast.Call() as call):
            _called(call, values)
        case ast.ClassDef(name=name, body=inner):
            _bind_class(name, inner, values)


def _bind_target(target: ast.expr, given: ast.expr, values: Values) -> None:
    if isinstance(target, ast.Name):
        values.bind(target.id, values.value(given))
    elif isinstance(target, ast.Subscript):
        name = dotted_name(target.value)
        if name and values.of(name) is not UNKNOWN:
            values.change(name, values.value(target.slice), values.value(given))
    else:
        _forget(target, values)


def _forget(target: ast.AST, values: Values) -> None:
    for name in stored_names(target):
        values.forget(name)


def _forget_owner(target: ast.expr, values: Values) -> None:
    """Forget `name` for `del name` and `del name[key]`."""
    name = dotted_name(target.value if isinstance(target, ast.Subscript) else target)
    if name:
        values.forget(name)


def _called(call: ast.Call, values: Values) -> None:
    """Note `name.update({…})`; after another call that changes a value it is not known."""
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in _CHANGING:
        return
    name = dotted_name(function.value)
    if not name or values.of(name) is UNKNOWN:
        return
    given = values.value(call.args[0]) if call.args else {}
    if function.attr != "update" or not isinstance(given, dict) or any(word.arg is None for word in call.keywords):
        values.forget(name)
        return
    words = {word.arg: values.value(word.value) for word in call.keywords}
    for key, value in {**given, **words}.items():
        values.change(name, key, value)


def _bind_class(name: str, body: Sequence[ast.stmt], values: Values) -> None:
    """Note the constants of a class under their dotted names: `Config.mode`."""
    inner = Values(values)
    bind_body(body, inner)
    for known, value in inner.own():
        values.bind(f"{name}.{known}", value)
