"""Summarises what one Python file tells other files of its project, from Python's own syntax tree.

A summary is plain JSON values, so that it can be cached and sent between processes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from jumar.convert.facts.use import Use, uses_of
from jumar.convert.model.text import UNPARSABLE, SourceError, SourceText, parse_python

OWN_METHODS = frozenset({"cuda", "is_cuda", "npu", "is_npu"})
"""Methods and attributes of tensors and modules that a class of the project may define under the same name."""

_FOLLOWED = (ast.If, ast.Try, ast.With)
"""Statements of a module whose bodies bind the module's names."""

_SIMPLE = (ast.Expr, ast.Assign, ast.Return, ast.AugAssign, ast.AnnAssign, ast.Assert, ast.Raise)
"""The most frequent statements that hold no others."""


@dataclass(slots=True)
class Summary:
    """`parses` is False when this Python cannot read the file; the rest is then empty."""

    parses: bool
    names: dict[str, str] = field(default_factory=dict)
    """Name bound at module level -> `torch.cuda` (imported), `..pkg.name` (relative), `=a.b` (an alias of what `a.b`
    is in this file), `` (bound to something else, or to several things)."""
    stars: list[str] = field(default_factory=list)
    """Modules imported with `*`, as written."""
    imports: list[str] = field(default_factory=list)
    """Modules imported as such, anywhere in the file."""
    taken: list[tuple[str, str]] = field(default_factory=list)
    """(module, name) of every from-import, anywhere in the file."""
    methods: dict[str, list[str]] = field(default_factory=dict)
    """Class of the module -> which of `OWN_METHODS` it defines."""
    bases: dict[str, list[str]] = field(default_factory=dict)
    """Class of the module -> its bases, dotted, as written."""
    public: list[str] | None = None
    """The names of `__all__`, where it is a plain list."""
    extensions: list[str] = field(default_factory=list)
    """Modules that the file has compiled from CUDA (`CUDAExtension('pkg._ext', ...)` of a setup.py)."""
    uses: list[Use] = field(default_factory=list)
    """Device and back-end words that keys of options and configurations are given, or compared with."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; `from_json` is the inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Summary:
        """Rebuild a summary. Raises KeyError or TypeError for foreign values."""
        rest = {key: item for key, item in value.items() if key not in ("uses", "taken")}
        return cls(
            **rest,
            taken=[(module, name) for module, name in value["taken"]],
            uses=[Use(**use) for use in value["uses"]],
        )


def summarise(data: bytes) -> Summary:
    """Read one file."""
    try:
        if not data.isascii():
            SourceText.decode(data)
        tree = parse_python(data)
    except (SourceError, *UNPARSABLE):
        return Summary(parses=False)
    found = Summary(parses=True)
    for statement in _statements(tree.body):
        _read(found, statement)
    _read_imports(found, tree.body)
    if b"xtension" in data or b"_ext(" in data:
        found.extensions = list(_extensions(tree))
    lowered = data.lower()
    if b"cuda" in lowered or b"nccl" in lowered:
        found.uses = list(uses_of(tree))
    return found


def _extensions(tree: ast.Module) -> Iterator[str]:
    """Yield the names of the modules that calls such as `CUDAExtension` build from CUDA."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = (dotted(node.func) or "").rpartition(".")[2]
        if not called.lower().endswith(("extension", "_ext")):
            continue
        texts = [
            each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)
        ]
        if "cuda" not in called.lower() and not any(text.endswith((".cu", ".cuh")) for text in texts):
            continue
        given = {word.arg: word.value for word in node.keywords}
        name = given.get("name", node.args[0] if node.args else None)
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            module = given.get("module")
            inside = f"{module.value}." if isinstance(module, ast.Constant) and isinstance(module.value, str) else ""
            yield inside + name.value


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that bind names of the module, also those in `if`, `try` and `with`."""
    for statement in body:
        yield statement
        if isinstance(statement, _FOLLOWED):
            yield from _statements(statement.body)
            yield from _statements(getattr(statement, "orelse", []))
            yield from _statements(getattr(statement, "finalbody", []))
            for handler in getattr(statement, "handlers", []):
                yield from _statements(handler.body)


def _read(found: Summary, statement: ast.stmt) -> None:
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            bound = alias.asname or alias.name.partition(".")[0]
            _bind(found, bound, alias.name if alias.asname else bound)
    elif isinstance(statement, ast.ImportFrom):
        origin = "." * statement.level + (statement.module or "")
        for alias in statement.names:
            if alias.name == "*":
                found.stars.append(origin)
            else:
                _bind(found, alias.asname or alias.name, joined(origin, alias.name))
    elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        _bind(found, statement.name, "")
    elif isinstance(statement, ast.ClassDef):
        _class(found, statement)
    elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
        _assignment(found, statement)


def _class(found: Summary, statement: ast.ClassDef) -> None:
    _bind(found, statement.name, "")
    own = {inner.name for inner in statement.body if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef))}
    own |= {
        target.id
        for inner in statement.body
        if isinstance(inner, ast.Assign)
        for target in inner.targets
        if isinstance(target, ast.Name)
    }
    bases = [name for base in statement.bases if (name := dotted(base)) is not None]
    if own & OWN_METHODS:
        found.methods[statement.name] = sorted(own & OWN_METHODS)
    if bases:
        found.bases[statement.name] = bases


def _assignment(found: Summary, statement: ast.Assign | ast.AnnAssign) -> None:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    value = statement.value
    for target in targets:
        if not isinstance(target, ast.Name):
            continue
        if target.id == "__all__":
            found.public = _strings(value)
        if isinstance(value, ast.Constant) and value.value is None:
            found.names.setdefault(target.id, "")
            continue
        name = dotted(value) if value is not None else None
        _bind(found, target.id, f"={name}" if name is not None else "")


def _bind(found: Summary, name: str, target: str) -> None:
    """Note a binding; a name that is bound to two different things stands for neither."""
    before = found.names.get(name)
    found.names[name] = target if before in (None, "", target) and not (before == "" and name in found.methods) else ""


def _strings(value: ast.expr | None) -> list[str] | None:
    if not isinstance(value, (ast.List, ast.Tuple)):
        return None
    texts = [item.value for item in value.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    return texts if len(texts) == len(value.elts) else None


def _read_imports(found: Summary, body: Sequence[ast.stmt]) -> None:
    """Note every import of the file, also those in functions."""
    waiting = list(reversed(body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found.imports += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            found.taken += [(origin, alias.name) for alias in node.names if alias.name != "*"]
        elif not isinstance(node, _SIMPLE):
            for block in (*_blocks(node), *(_blocks_of_clauses(node))):
                waiting.extend(reversed(block))


def _blocks(node: ast.AST) -> Iterator[Sequence[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if block:
            yield block


def _blocks_of_clauses(node: ast.AST) -> Iterator[Sequence[ast.stmt]]:
    for clause in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield clause.body


def joined(origin: str, name: str) -> str:
    """Return the dotted name of something in a module, which may be written relative (`.`, `..pkg`)."""
    return f"{origin}{name}" if origin.endswith(".") or not origin else f"{origin}.{name}"


def dotted(node: ast.expr) -> str | None:
    """Return `a.b.c` for a chain of attributes on a name, else None."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])
