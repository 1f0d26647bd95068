"""## What it does
Reports a name that the conversion changed in one place of a file and not in another that must agree with
it: an attribute or enumeration member where it is used but not where it is defined, a keyword argument but
not the parameter, a key of a dictionary but not its readers, a default but not the choices it must be one
of, one part of a compound back end (`npu:nccl`).

## Why it matters
Each half is valid by itself; together they raise AttributeError, TypeError or KeyError, or refuse the
command line that worked before.

## Example
```python
class Device(Enum):
    CUDA = 0

use(Device.NPU)
```

## Use instead
```python
class Device(Enum):
    CUDA = 0

use(Device.CUDA)
```

## Fix safety
No edit is made.

## References
- `jumar docs guide-convert`
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeGuard

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.convert.verify.pair import Code, Pair

RULE = Rule(
    code="JM188",
    name="half-renamed",
    summary="A name was changed in one place and not in another that must agree with it.",
    severity=Severity.ERROR,
    doc=__doc__,
)


_BACKENDS = {
    "cuda": frozenset({"nccl", "gloo", "ucc", "mpi"}),
    "npu": frozenset({"hccl", "gloo", "mpi"}),
    "cpu": frozenset({"gloo", "ucc", "mpi"}),
}
"""Device of a compound back end -> back ends that serve it; others are not judged."""

_COMPOUND = re.compile(r"\w+:[a-z]+(,\w+:[a-z]+)*")
_ENUMS = frozenset({"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"})
_ENUM_MEMBERS = frozenset({"name", "value", "_name_", "_value_"})


@dataclass(frozen=True, slots=True)
class _Contradiction:
    what: str
    line: int = field(compare=False)


def find(pair: Pair) -> Iterator[Finding]:
    """Report contradictions that only the converted file has."""
    if pair.before is None or pair.after is None or pair.before.tree is None or pair.after.tree is None:
        return
    known = Counter(_contradictions(pair.before))
    for found in _contradictions(pair.after):
        if known[found] > 0:
            known[found] -= 1
        else:
            yield pair.finding(RULE, found.what, found.line)


def _contradictions(code: Code) -> Iterator[_Contradiction]:
    yield from _members(code)
    yield from _keywords(code)
    yield from _keys(code)
    yield from _choices(code)
    yield from _backends(code)


def _members(code: Code) -> Iterator[_Contradiction]:
    """Yield members asked of a closed class of this file, or of `self` in it, that it defines nowhere."""
    classes = {node.name: node for node in code.nodes if isinstance(node, ast.ClassDef)}
    closed = {name: _defined(node) for name, node in classes.items() if not code.stored[name] and _is_closed(node)}
    for node in code.nodes if closed else ():
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            defined = closed.get(node.value.id)
            if defined is not None and node.attr not in defined and not node.attr.startswith("__"):
                yield _Contradiction(f"`{node.value.id}` defines no `{node.attr}`", node.lineno)
    for name, defined in closed.items():
        for inner in ast.walk(classes[name]):
            if _is_read_of_self(inner) and inner.attr not in defined:
                yield _Contradiction(f"`{name}` defines no `{inner.attr}`", inner.lineno)


def _is_closed(node: ast.ClassDef) -> bool:
    """Tell whether the class's members can all be read here: its bases are none, enumerations, or `str` and `int`."""
    bases = {base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases}
    methods = {statement.name for statement in node.body if isinstance(statement, ast.FunctionDef)}
    return (
        bases <= _ENUMS | {"object", "str", "int"}
        and not node.keywords
        and not node.decorator_list
        and not methods & {"__getattr__", "__getattribute__"}
    )


def _defined(node: ast.ClassDef) -> set[str]:
    bases = {base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases}
    found: set[str] = {"mro", *_ENUM_MEMBERS}
    found.update(dir(str) if bases & {"str", "StrEnum"} else ())
    found.update(dir(int) if bases & {"int", "IntEnum", "IntFlag"} else ())
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and not isinstance(inner.ctx, ast.Load):
            found.add(inner.attr)
        elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            found.add(inner.id)
        elif isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(inner.name)
        elif isinstance(inner, ast.Call) and getattr(inner.func, "id", "") == "setattr":
            found.update(str(argument.value) for argument in inner.args if isinstance(argument, ast.Constant))
        elif isinstance(inner, (ast.Import, ast.ImportFrom)):
            found.update((alias.asname or alias.name).partition(".")[0] for alias in inner.names)
    return found


def _is_read_of_self(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
        and not node.attr.startswith("__")
    )


def _keywords(code: Code) -> Iterator[_Contradiction]:
    """Yield keyword arguments that a function of this file, known by its one definition, does not take."""
    functions = _functions_by_name(code)
    for node in code.nodes if functions else ():
        function = functions.get(_callee(node)) if isinstance(node, ast.Call) and node.keywords else None
        if function is None or function.args.kwarg is not None or function.decorator_list:
            continue
        taken = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
        for keyword in node.keywords:  # type: ignore[attr-defined]  # it is a call
            if keyword.arg is not None and keyword.arg not in taken:
                yield _Contradiction(f"`{function.name}` takes no argument `{keyword.arg}`", keyword.lineno)


def _functions_by_name(code: Code) -> dict[str, ast.FunctionDef]:
    """Return the functions and methods of this file whose name is bound once."""
    found: dict[str, list[ast.FunctionDef]] = {}
    for node in code.nodes:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
    return {name: nodes[0] for name, nodes in found.items() if len(nodes) == 1 and not code.stored[name]}


def _callee(call: ast.Call) -> str:
    if isinstance(call.func, ast.Name):
        return call.func.id
    if isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") in {"self", "cls"}:
        return call.func.attr
    return ""


def _keys(code: Code) -> Iterator[_Contradiction]:
    """Yield constant keys read from a dictionary that is written down whole, once, and does not hold them."""
    closed = {
        target.id: {key.value for key in node.value.keys if isinstance(key, ast.Constant)}
        for node in code.nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
        for target in node.targets
        if isinstance(target, ast.Name) and code.stored[target.id] == 1
        if all(isinstance(key, ast.Constant) for key in node.value.keys)
    }
    subscripts = list(_subscripts(code)) if closed else []
    written = {(found.name, found.key) for found in subscripts if found.writes}
    for found in subscripts:
        keys = closed.get(found.name)
        if keys is not None and found.key not in keys and not found.writes and (found.name, found.key) not in written:
            yield _Contradiction(f"`{found.name}` holds no key {found.key!r}", found.line)


@dataclass(frozen=True, slots=True)
class _Subscript:
    name: str
    key: object
    line: int
    writes: bool


def _subscripts(code: Code) -> Iterator[_Subscript]:
    for node in code.nodes:
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and isinstance(node.slice, ast.Constant)
        ):
            yield _Subscript(node.value.id, node.slice.value, node.lineno, not isinstance(node.ctx, ast.Load))


def _choices(code: Code) -> Iterator[_Contradiction]:
    """Yield options whose constant default is none of their constant choices."""
    for node in code.nodes:
        given = {keyword.arg: keyword.value for keyword in node.keywords} if isinstance(node, ast.Call) else {}
        default, choices = given.get("default"), given.get("choices")
        if not isinstance(default, ast.Constant) or not isinstance(choices, (ast.List, ast.Tuple, ast.Set)):
            continue
        values = [choice.value for choice in choices.elts if isinstance(choice, ast.Constant)]
        if isinstance(default.value, str) and len(values) == len(choices.elts) and default.value not in values:
            yield _Contradiction(f"the default {default.value!r} is none of the choices", default.lineno)


def _backends(code: Code) -> Iterator[_Contradiction]:
    for node in code.nodes:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or not _COMPOUND.fullmatch(node.value):
            continue
        for device, _, backend in (part.partition(":") for part in node.value.split(",")):
            others = frozenset[str]().union(*_BACKENDS.values()) - _BACKENDS.get(device, frozenset())
            if device in _BACKENDS and backend in others:
                yield _Contradiction(f"{node.value!r} gives {device} the back end of another device", node.lineno)
