"""`Use`: Python code gives a device or back-end word to the key of an option, or compares one with it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

_WORD = re.compile(r"(?:cuda|gpu)(?::\d+)?|nccl|(?:\w+:\w+,)*cuda:nccl(?:,\w+:\w+)*", re.IGNORECASE)
_OTHER_DEVICE = re.compile(r"(?:cpu|mps|npu|xpu|hpu|mlu|musa|tpu|xla|meta)(?::\d+)?", re.IGNORECASE)
_OPTIONS = frozenset({"add_argument", "add_option", "option", "Option", "Argument"})
_FIELDS = frozenset({"field", "Field", "attrib", "Option", "Argument"})
_GETTERS = frozenset({"get", "pop", "setdefault", "getattr"})
_DEVICE_CALLS = frozenset({"to", "device", "set_device", "to_empty", "set_default_device"})

_CONTEXTS = (ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop)

Role = Literal["write", "read", "lookup", "device"]
"""`write`: the key is given the word; `read`: it is compared with it; `lookup`: it picks an entry of a dictionary
by the word; `device`: it is used as a device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One use of a word, or of a key as a device (`word` is then empty)."""

    key: str
    role: Role
    word: str
    line: int
    beside: bool = False
    """Whether another device stands beside the word."""


def is_word(text: str) -> bool:
    """Tell whether a text is a CUDA device or NCCL, and nothing else."""
    return _WORD.fullmatch(text) is not None


def plain_key(text: str) -> str:
    """Return the name by which files call a key to each other: `--dist-backend` and `a.dist_backend`: dist_backend."""
    return re.split(r"[.@/]", text.lstrip("-+~"))[-1].replace("-", "_")


def uses_of(tree: ast.Module) -> Iterator[Use]:
    """Yield the uses of one file."""
    tables = _tables(tree)
    for node in _walk(tree):
        if isinstance(node, ast.Call):
            yield from _call(node)
        elif isinstance(node, ast.ClassDef):
            yield from _fields(node)
        elif isinstance(node, ast.Dict):
            yield from _dictionary(node)
        elif isinstance(node, ast.Assign):
            yield from _assignment(node)
        elif isinstance(node, ast.Compare):
            yield from _comparison(node)
        elif isinstance(node, ast.Subscript):
            yield from _lookup(node, tables)
        elif isinstance(node, ast.Match):
            yield from _match(node)


def _walk(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield every node; twice as fast as `ast.walk`, which asks each node for its fields.

    Attributes that others hang on nodes are passed over. Older releases of pyflakes give each its parent, also those
    that all trees share (`ast.Eq()`), so that they would lead into other trees, and round in circles.
    """
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for name, value in node.__dict__.items():
            if name[0] == "_":
                continue
            if isinstance(value, ast.AST):
                if not isinstance(value, _CONTEXTS):
                    waiting.append(value)
            elif isinstance(value, list):
                waiting.extend(item for item in value if isinstance(item, ast.AST))


def _words(node: ast.AST | None) -> list[str]:
    """Return the words that are a value, or among the values, of an expression."""
    return [text for text in _texts(node) if is_word(text)]


def _texts(node: ast.AST | None) -> list[str]:
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    return [text for part in _parts(node) for text in _texts(part)]


def _parts(node: ast.AST | None) -> list[ast.expr]:
    """Return the expressions whose values an expression may have, or lists."""
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return node.elts
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, ast.BoolOp):
        return node.values
    if isinstance(node, ast.Subscript):  # Literal['cpu', 'cuda']
        return [node.slice]
    if isinstance(node, ast.Call) and _called(node) in _FIELDS:
        return [*node.args, *(word.value for word in node.keywords)]
    return []


def _given(key: str, values: list[ast.expr], line: int) -> Iterator[Use]:
    texts = [text for value in values for text in _texts(value)]
    beside = any(_OTHER_DEVICE.fullmatch(text) for text in texts)
    for word in dict.fromkeys(text for text in texts if is_word(text)):
        yield Use(key=plain_key(key), role="write", word=word, line=line, beside=beside)


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _call(node: ast.Call) -> Iterator[Use]:
    name = _called(node)
    if name in _OPTIONS:
        keys = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        given = [arg for arg in node.args if not any(text in keys for text in _texts(arg) if text.startswith("-"))]
        keys = [key for key in keys if key.startswith("--")] or keys[:1]
        dest = [word.value for word in node.keywords if word.arg == "dest"]
        keys += [text for value in dest for text in _texts(value)]
        values = [word.value for word in node.keywords if word.arg in ("default", "choices", "const", "type")]
        values = [value.args[0] if isinstance(value, ast.Call) and value.args else value for value in values]
        values += given if name in _FIELDS else []  # typer's default comes first
        for key in keys:
            yield from _given(key, values, node.lineno)
    elif name in ("startswith", "endswith") and isinstance(node.func, ast.Attribute):
        yield from _read(node.func.value, _words(node.args[0] if node.args else None), node.lineno)
    elif name in _DEVICE_CALLS:
        for argument in node.args[:1]:
            for key in _keys(argument):
                yield Use(key=key, role="device", word="", line=node.lineno)


def _fields(node: ast.ClassDef) -> Iterator[Use]:
    """Yield defaults of fields: of a data class, a pydantic model, or a class that holds settings."""
    for inner in node.body:
        if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name) and inner.value is not None:
            yield from _given(inner.target.id, [inner.value, inner.annotation], inner.lineno)


def _dictionary(node: ast.Dict) -> Iterator[Use]:
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield from _given(key.value, [value], node.lineno)


def _assignment(node: ast.Assign) -> Iterator[Use]:
    for target in node.targets:
        if isinstance(target, (ast.Attribute, ast.Subscript)):
            for key in _keys(target):
                yield from _given(key, [node.value], node.lineno)


def _keys(node: ast.expr) -> list[str]:
    """Return the key of `args.key`, `cfg['key']`, `cfg.get('key')` and `getattr(args, 'key')`."""
    if isinstance(node, ast.Attribute):
        return [] if node.attr == "type" else [node.attr]
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        return [plain_key(node.slice.value)]
    if isinstance(node, ast.Call) and _called(node) in _GETTERS:
        at = 1 if _called(node) == "getattr" else 0
        return [plain_key(text) for argument in node.args[at : at + 1] for text in _texts(argument)]
    return []


def _comparison(node: ast.Compare) -> Iterator[Use]:
    sides = [node.left, *node.comparators]
    words = [word for side in sides for word in _words(side)]
    for side in sides:
        yield from _read(side, words, node.lineno)


def _read(side: ast.expr, words: list[str], line: int) -> Iterator[Use]:
    for key in _keys(side):
        for word in dict.fromkeys(words):
            yield Use(key=key, role="read", word=word, line=line)


def _unserved(node: ast.Dict) -> list[str]:
    """Return the words among the keys of a dictionary that has no entry for an NPU."""
    keys = [text for key in node.keys for text in _texts(key)]
    return [] if "npu" in keys or "hccl" in keys else [key for key in keys if is_word(key)]


def _tables(tree: ast.Module) -> dict[str, list[str]]:
    """Return the words among the keys of the dictionaries that names of the module are bound to."""
    found: dict[str, list[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            words = _unserved(node.value)
            found.update({target.id: words for target in node.targets if isinstance(target, ast.Name) and words})
    return found


def _lookup(node: ast.Subscript, tables: dict[str, list[str]]) -> Iterator[Use]:
    words: list[str] = []
    if isinstance(node.value, ast.Dict):
        words = _unserved(node.value)
    elif isinstance(node.value, ast.Name):
        words = tables.get(node.value.id, [])
    for key in _keys(node.slice):
        for word in dict.fromkeys(words):
            yield Use(key=key, role="lookup", word=word, line=node.lineno)


def _match(node: ast.Match) -> Iterator[Use]:
    words = [
        word
        for case in node.cases
        for inner in ast.walk(case.pattern)
        if isinstance(inner, ast.MatchValue)
        for word in _words(inner.value)
    ]
    for key in _keys(node.subject):
        for word in dict.fromkeys(words):
            yield Use(key=key, role="lookup", word=word, line=node.subject.lineno)
