"""Read, from the C++ of an aclnn library, which dtypes its functions accept for each parameter.

An aclnn function checks its tensors against lists of dtypes, mostly in helper functions that it hands its
parameters to. A list is named directly, chosen by a helper that looks at the chip, or by one of the library's own
(`GetDtypeSupportListV2(later, first)`). What cannot be followed is left out: no entry, no limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

FIRST, LATER = "first", "later"
"""Columns: chips before Ascend910B1; A2 and A3."""

Columns = dict[str, list[str]]
"""Column -> CANN dtype names without `DT_`."""

_LIST = re.compile(r"(?:initializer_list|vector)<(?:op::|ge::)?DataType>\s*(\w+)\s*=?\s*\{([^}]*)\}", re.DOTALL)
_FUNCTION = re.compile(r"\b(\w+)\s*\(([^;{}()]*(?:\([^()]*\)[^;{}()]*)*)\)\s*\{")
_MACRO = re.compile(r"OP_CHECK_DTYPE_NOT_SUPPORT\(\s*([\w.>()-]+)\s*,\s*((?:[^,()]|\([^()]*\))+)\s*,")
_CONDITION = re.compile(
    r"if\s*\(\s*!\s*(?:op::)?CheckType\(\s*(\w+)->GetDataType\(\)\s*,\s*(\w+)\s*\)\s*\)\s*\{[^{}]*OP_LOGE"
)
_CASES = re.compile(
    r"((?:(?:case\s+[\w:]+|default)\s*:\s*\{?\s*)+)(?:OP_LOG\w*\([^;]*;)?\s*return\s+([^;]+);", re.DOTALL
)
_OTHER_CHIPS = re.compile(r"950|3510|REGBASE|RegBase|310P|91095|INDEX|MC62|5102|EMPTY")
_MAX_DEPTH = 6
_MAX_CALLS = 4


@dataclass(frozen=True, slots=True)
class Function:
    """One aclnn function: its parameters in order, and what it accepts for those that it checks."""

    parameters: tuple[str, ...]
    checks: Mapping[str, Columns]


@dataclass(slots=True)
class _Source:
    """One C++ file."""

    text: str
    lists: dict[str, list[str]] = field(default_factory=dict)
    bodies: dict[str, tuple[list[str], str]] = field(default_factory=dict)


def read_library(folder: Path) -> dict[str, Function]:
    """Return every aclnn function below `folder` by name."""
    found: dict[str, Function] = {}
    for file in sorted(folder.rglob("op_api/aclnn_*.cpp")):
        if "test" not in str(file) and "experimental" not in str(file):
            for name, function in _read(file.read_text(encoding="utf-8", errors="replace")):
                found.setdefault(name, function)
    return found


def without_comments(text: str) -> str:
    """Return C++ without its comments."""
    return re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))


def functions(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, parameters and body of every function definition (and of what looks like one)."""
    for match in _FUNCTION.finditer(text):
        yield match[1], match[2], _block(text, match.end())


def last_word(declaration: str) -> str:
    """Return the name that a C++ parameter declares."""
    return re.split(r"[\s*&]+", declaration.strip())[-1]


def _block(text: str, start: int) -> str:
    depth, position = 1, start
    while depth and position < len(text):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        position += 1
    return text[start : position - 1]


def _dtypes(text: str) -> list[str]:
    return re.findall(r"DT_(\w+)", text)


def _read(text: str) -> Iterator[tuple[str, Function]]:
    source = _Source(without_comments(text))
    source.lists = {name: _dtypes(body) for name, body in _LIST.findall(source.text) if _dtypes(body)}
    for name, parameters, body in functions(source.text):
        source.bodies[name] = ([last_word(item) for item in parameters.split(",")], body)
    for name, (parameters, _) in source.bodies.items():
        match = re.match(r"(aclnn\w+)GetWorkspaceSize$", name)
        if match:
            checks: dict[str, Columns] = {}
            _follow(source, name, {item: item for item in parameters}, checks, 0)
            yield match[1], Function(tuple(parameters[:-2]), checks)


def _follow(source: _Source, name: str, names: dict[str, str], checks: dict[str, Columns], depth: int) -> None:
    """Collect the checks of a function and of those it calls; `names` leads from theirs to the outermost names."""
    body = source.bodies[name][1]
    for parameter, expression in (*_MACRO.findall(body), *_CONDITION.findall(body)):
        columns = _resolve(expression, source, body, 0) or _by_name(expression, source, body)
        if columns and parameter in names:
            checks.setdefault(names[parameter], columns)
    if depth == _MAX_CALLS:
        return
    for called, (parameters, _) in source.bodies.items():
        if called == name:
            continue
        for arguments in re.findall(rf"\b{called}\(((?:[^()]|\([^()]*\))*)\)", body):
            given = [item.strip() for item in arguments.split(",")]
            if len(given) == len(parameters):
                inner = {own: names[item] for own, item in zip(parameters, given, strict=True) if item in names}
                _follow(source, called, inner, checks, depth + 1)


def _resolve(expression: str, source: _Source, body: str, depth: int) -> Columns | None:
    """Return the lists that an expression stands for, by what it says."""
    expression = expression.strip()
    if depth > _MAX_DEPTH:
        return None
    if expression.startswith("{"):
        return _both(_dtypes(expression))
    if expression in source.lists:
        return _both(source.lists[expression])
    match = re.match(r"(?:op::)?GetDtypeSupportListV([12])\(\s*(.*)\)$", expression, re.DOTALL)
    if match:
        names = [item.strip() for item in match[2].split(",")]
        known = all(name in source.lists for name in names)
        return {LATER: source.lists[names[0]], FIRST: source.lists[names[-1]]} if known else None
    match = re.match(r"(\w+)\(.*\)$", expression, re.DOTALL)
    if match:
        inner = _body(source, match[1])
        return None if inner is None else _branches(inner, source, depth + 1)
    made = re.findall(
        rf"(?:auto|std::initializer_list<(?:op::)?DataType>)\s*&?\s*{re.escape(expression)}\s*=\s*(.*?);",
        body,
        re.DOTALL,
    )
    return _resolve_choice(made[0], source, body, depth + 1) if len(made) == 1 else None


def _resolve_choice(expression: str, source: _Source, body: str, depth: int) -> Columns | None:
    match = re.match(r"(.*?)\?(.*):(.*)$", expression.strip(), re.DOTALL)
    if match and "::" not in match[2].replace("op::", "").replace("DataType::", ""):
        yes, no = (_resolve(match[side], source, body, depth) for side in (2, 3))
        return _chosen(match[1], yes, no)
    return _resolve(expression, source, body, depth)


def _body(source: _Source, name: str) -> str | None:
    match = re.search(rf"\b{re.escape(name)}\s*\([^;{{}}]*\)\s*\{{", source.text)
    return _block(source.text, match.end()) if match else None


def _both(dtypes: list[str]) -> Columns | None:
    return {FIRST: dtypes, LATER: dtypes} if dtypes else None


def _chosen(condition: str, yes: Columns | None, no: Columns | None) -> Columns | None:
    """Return what a condition on the chip chooses; None where it is about something else."""
    later = any(word in condition for word in ("910B", "910_93", "2201", "Bf16", "BF16"))
    first = bool(re.search(r"ASCEND910\)|1001|SocVersion::ASCEND910 ", condition))
    other = any(word in condition for word in ("950", "3510", "RegBase", "REGBASE", "310P", "2002"))
    if yes is None or no is None or not (later or first or other):
        return None
    return {FIRST: (yes if first else no)[FIRST], LATER: (yes if later else no)[LATER]}


def _branches(body: str, source: _Source, depth: int) -> Columns | None:
    """Return what a function that looks at the chip returns for each."""
    return _switch(body, source, depth) if "switch" in body else _conditions(body, source, depth)


def _switch(body: str, source: _Source, depth: int) -> Columns | None:
    found: Columns = {}
    default: Columns | None = None
    for labels, returned in _CASES.findall(body):
        columns = _resolve(returned, source, body, depth)
        if columns is None:
            continue
        if "default" in labels:
            default = columns
        if re.search(r"1001|ASCEND910\b", labels):
            found.setdefault(FIRST, columns[FIRST])
        if re.search(r"2201|910B|910_93", labels):
            found.setdefault(LATER, columns[LATER])
    return {**default, **found} if default else found if len(found) == len((FIRST, LATER)) else None


def _conditions(body: str, source: _Source, depth: int) -> Columns | None:
    guarded = re.findall(r"if\s*\(((?:[^()]|\([^()]*\))*)\)\s*\{?\s*return\s+([^;]+);", body, re.DOTALL)
    returned = re.findall(r"return\s+([^;]+);", body)
    if not returned:
        return None
    match = re.match(r"\s*(.*?)\?(.*):\s*(\w+)\s*$", returned[-1], re.DOTALL)
    if match and not guarded:
        yes, no = (_resolve(match[side], source, body, depth) for side in (2, 3))
        return _chosen(match[1], yes, no)
    found = _resolve(returned[-1], source, body, depth)
    for condition, value in reversed(guarded):
        found = _chosen(condition, _resolve(value, source, body, depth), found)
    return found


def _by_name(expression: str, source: _Source, body: str) -> Columns | None:
    """Return the lists named where the expression is made: one, or two told apart by bfloat16 or by their names."""
    words: list[str] = []
    match = re.match(r"(\w+)\s*\(?", expression.strip())
    if match and "(" in expression:
        words = re.findall(r"\w+", _body(source, match[1]) or "")
    elif match:
        for made in re.findall(rf"\b{match[1]}\s*=\s*(.*?);", body, re.DOTALL):
            for word in re.findall(r"\w+", made):
                words += [word] if word in source.lists else re.findall(r"\w+", _body(source, word) or "")
    names = sorted({word for word in words if word in source.lists and not _OTHER_CHIPS.search(word)})
    if len(names) == 1:
        return _both(source.lists[names[0]])
    if len(names) != len((FIRST, LATER)):
        return None
    for later, first in (names, names[::-1]):
        if "BF16" in source.lists[later] and "BF16" not in source.lists[first]:
            return {FIRST: source.lists[first], LATER: source.lists[later]}
    for later, first in (names, names[::-1]):
        if "910B" in later and "910B" not in first:
            return {FIRST: source.lists[first], LATER: source.lists[later]}
    return None
