"""Questions about nodes of a syntax tree: names, targets, arguments, statements of a body."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def own_statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a body and of its blocks, in order, without those of functions and classes in it."""
    for node in body:
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            for name in ("body", "orelse", "finalbody"):
                yield from own_statements(getattr(node, name, []))
            for handler in (*getattr(node, "handlers", []), *getattr(node, "cases", [])):
                yield from own_statements(handler.body)


def parameters_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Mapping[str, ast.expr | None]:
    """Return the names of a function's parameters, each with its default value."""
    plain = [*node.args.posonlyargs, *node.args.args]
    defaults = [None] * (len(plain) - len(node.args.defaults)) + list(node.args.defaults)
    found: dict[str, ast.expr | None] = {one.arg: default for one, default in zip(plain, defaults, strict=True)}
    return found | {one.arg: default for one, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)}


def arguments_of(call: ast.Call, names: Sequence[str]) -> dict[str, ast.expr]:
    """Return what a call gives to the parameters with these names."""
    given = dict(zip(names, call.args, strict=False))
    return given | {word.arg: word.value for word in call.keywords if word.arg is not None}


def stored_names(target: ast.AST) -> Iterator[str]:
    """Yield the names that an assignment's target binds."""
    for node in ast.walk(target):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def last_name(node: ast.expr) -> str:
    """Return `NPURunConfig` of `npu_config.NPURunConfig`; empty for what has no name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def dotted_name(node: ast.AST) -> str:
    """Return `Config.mode` of an attribute or a name; empty for other expressions."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted_name(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def pairs_of(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield target and value of an assignment, each pair of `a, b = 1, 2` apart."""
    both = (target, value)
    if all(isinstance(one, (ast.Tuple, ast.List)) for one in both):
        left, right = target.elts, value.elts  # type: ignore[attr-defined]
        if len(left) == len(right) and not any(isinstance(one, ast.Starred) for one in (*left, *right)):
            for one, other in zip(left, right, strict=True):
                yield from pairs_of(one, other)
            return
    yield both
