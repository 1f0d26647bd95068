"""JM188: what one file must spell alike is spelled alike, if it was before.

Each fact is a contradiction *within* one text (a member that its class does not define, a keyword that
its function does not take); only contradictions that the original did not have are reported.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from jumar.findings import Finding
from jumar.migrate.rules.proof import HALF_RENAMED
from jumar.migrate.verify.model import Code, Pair

_BACKENDS = {"cuda": {"nccl", "gloo", "ucc", "mpi"}, "npu": {"hccl", "gloo", "mpi"}, "cpu": {"gloo", "mpi", "ucc"}}
"""Device of a compound back end -> back ends that serve it; others are not judged."""

_COMPOUND = re.compile(r"\w+:[a-z]+(,\w+:[a-z]+)*")


@dataclass(frozen=True, slots=True)
class _Contradiction:
    what: str
    line: int = field(compare=False)


def check(pair: Pair) -> Iterator[Finding]:
    """Report contradictions that only the converted file has."""
    if pair.before is None or pair.after is None or pair.before.tree is None or pair.after.tree is None:
        return
    known = Counter(_contradictions(pair.before))
    for found in _contradictions(pair.after):
        if known[found] > 0:
            known[found] -= 1
        else:
            yield pair.finding(HALF_RENAMED, found.what, found.line)


def _contradictions(code: Code) -> Iterator[_Contradiction]:
    assert code.tree is not None
    yield from _members(code.tree)
    yield from _keywords(code.tree)
    yield from _keys(code.tree)
    yield from _choices(code.tree)
    yield from _backends(code.tree)


def _members(tree: ast.Module) -> Iterator[_Contradiction]:
    """Yield members asked of a closed class of this file, or of `self` in it, that it defines nowhere."""
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    closed = {name: _defined(node) for name, node in classes.items() if _is_closed(node, tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            defined = closed.get(node.value.id)
            if defined is not None and node.attr not in defined and not node.attr.startswith("__"):
                yield _Contradiction(f"`{node.value.id}` defines no `{node.attr}`", node.lineno)
    for name, defined in closed.items():
        for node in ast.walk(classes[name]):
            if _is_read_of_self(node) and isinstance(node, ast.Attribute) and node.attr not in defined:
                yield _Contradiction(f"`{name}` defines no `{node.attr}`", node.lineno)


_ENUMS = frozenset({"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"})
_ENUM_MEMBERS = frozenset({"name", "value", "_name_", "_value_", "__members__"})


def _is_closed(node: ast.ClassDef, tree: ast.Module) -> bool:
    """Tell whether the class's members can all be read here: its bases are none, enumerations, or `str` and `int`."""
    bases = {base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases}
    rebound = any(
        isinstance(found, ast.Name) and found.id == node.name and isinstance(found.ctx, ast.Store)
        for found in ast.walk(tree)
    )
    inner = {statement.name for statement in node.body if isinstance(statement, ast.FunctionDef)}
    return (
        bases <= _ENUMS | {"object", "str", "int"}
        and not node.keywords
        and not node.decorator_list
        and not rebound
        and not inner & {"__getattr__", "__getattribute__"}
    )


def _defined(node: ast.ClassDef) -> set[str]:
    found: set[str] = set(_ENUM_MEMBERS) | {"mro"}
    found.update(dir(str) if any(getattr(base, "id", "") == "str" for base in node.bases) else ())
    found.update(
        dir(int) if any(getattr(base, "id", "") in {"int", "IntEnum", "IntFlag"} for base in node.bases) else ()
    )
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, (ast.Store, ast.Del)):
            found.add(inner.attr)
        elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            found.add(inner.id)
        elif isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(inner.name)
        elif isinstance(inner, ast.Call) and getattr(inner.func, "id", "") == "setattr":
            found.update(argument.value for argument in inner.args if isinstance(argument, ast.Constant))  # type: ignore[misc]
        elif isinstance(inner, (ast.Import, ast.ImportFrom)):
            found.update((alias.asname or alias.name).partition(".")[0] for alias in inner.names)
    return found


def _is_read_of_self(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
        and not node.attr.startswith("__")
    )


def _keywords(tree: ast.Module) -> Iterator[_Contradiction]:
    """Yield keyword arguments that a function of this file, known by its one definition, does not take."""
    functions = _functions_by_name(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = functions.get(_callee(node))
        if function is None or function.args.kwarg is not None or function.decorator_list:
            continue
        arguments = function.args
        taken = {argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)}
        for keyword in node.keywords:
            if keyword.arg is not None and keyword.arg not in taken:
                yield _Contradiction(f"`{function.name}` takes no argument `{keyword.arg}`", node.lineno)


def _functions_by_name(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """Return the functions and `self.` methods of this file whose name is bound once."""
    found: dict[str, list[ast.FunctionDef]] = {}
    stored: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored[node.id] += 1
        elif isinstance(node, ast.alias):
            stored[(node.asname or node.name).partition(".")[0]] += 1
        elif isinstance(node, ast.arg):
            stored[node.arg] += 1
    return {name: nodes[0] for name, nodes in found.items() if len(nodes) == 1 and not stored[name]}


def _callee(call: ast.Call) -> str:
    if isinstance(call.func, ast.Name):
        return call.func.id
    if isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") in {"self", "cls"}:
        return call.func.attr
    return ""


def _keys(tree: ast.Module) -> Iterator[_Contradiction]:
    """Yield constant keys read from a dictionary that is written down whole, once, and does not hold them."""
    literals: dict[str, ast.Dict] = {}
    stored: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            literals.update((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored[node.id] += 1
        elif isinstance(node, ast.arg):
            stored[node.arg] += 1
    closed = {
        name: {key.value for key in found.keys if isinstance(key, ast.Constant)}
        for name, found in literals.items()
        if stored[name] == 1 and all(isinstance(key, ast.Constant) for key in found.keys)
    }
    written = {(found.name, found.key) for found in _subscripts(tree) if found.writes}
    for found in _subscripts(tree):
        keys = closed.get(found.name)
        if keys is not None and found.key not in keys and not found.writes and (found.name, found.key) not in written:
            yield _Contradiction(f"`{found.name}` holds no key {found.key!r}", found.line)


@dataclass(frozen=True, slots=True)
class _Subscript:
    name: str
    key: object
    line: int
    writes: bool


def _subscripts(tree: ast.Module) -> Iterator[_Subscript]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and isinstance(node.slice, ast.Constant)
        ):
            yield _Subscript(node.value.id, node.slice.value, node.lineno, not isinstance(node.ctx, ast.Load))


def _choices(tree: ast.Module) -> Iterator[_Contradiction]:
    """Yield options whose constant default is none of their constant choices."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        default, choices = given.get("default"), given.get("choices")
        if not isinstance(default, ast.Constant) or not isinstance(choices, (ast.List, ast.Tuple, ast.Set)):
            continue
        values = [choice.value for choice in choices.elts if isinstance(choice, ast.Constant)]
        if isinstance(default.value, str) and len(values) == len(choices.elts) and default.value not in values:
            yield _Contradiction(f"the default {default.value!r} is none of the choices", node.lineno)


def _backends(tree: ast.Module) -> Iterator[_Contradiction]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or not _COMPOUND.fullmatch(node.value):
            continue
        for part in node.value.split(","):
            device, _, backend = part.partition(":")
            others = set().union(*_BACKENDS.values()) - _BACKENDS.get(device, set())
            if device in _BACKENDS and backend in others:
                yield _Contradiction(f"{node.value!r} gives {device} the back end of another device", node.lineno)
