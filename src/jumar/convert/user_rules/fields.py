"""Reads a document's tables field by field. Errors name the file, the place, the value and what is expected."""

from __future__ import annotations

import ast
import difflib
import io
import json
import tokenize
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from jumar.base.errors import InputError
from jumar.convert.user_rules.patterns import is_name

T = TypeVar("T")
_MOST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Table:
    """One object of a document; `place` is its path in it, `rules[0].arguments[1]`."""

    values: Mapping[str, Any]
    file: str
    place: str

    @classmethod
    def of(cls, value: Any, file: str, place: str) -> Table:
        """Return `value` as a table. Raises InputError when it is none."""
        if not isinstance(value, dict):
            _fail(file, place, "must be an object with names and values", value)
        return cls(value, file, place)

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def path(self, key: str) -> str:
        """Return the place of a field."""
        return f"{self.place}.{key}" if self.place else key

    def fail(self, key: str, expected: str, *, value: Any = None) -> NoReturn:
        """Raise the InputError for a field: what must hold there, and what is there."""
        _fail(self.file, self.path(key), expected, self.values.get(key) if value is None else value)

    def only(self, *known: str) -> None:
        """Raise InputError for a field that is none of `known`."""
        for key in self.values:
            if key not in known:
                near = difflib.get_close_matches(str(key), known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}."
                raise InputError(
                    f"{self.file}: {shown(self.path(str(key)))} is not a field of a rule file here; {hint}"
                )

    def any(self, key: str) -> Any:
        """Return a field that must be there."""
        if key not in self.values:
            place = f"{self.place} must have" if self.place else "must have"
            raise InputError(f'{self.file}: {place} the field "{key}"; add it.')
        return self.values[key]

    def table(self, key: str) -> Table:
        """Return a field that must be an object."""
        return Table.of(self.any(key), self.file, self.path(key))

    def tables(self, key: str) -> Iterator[Table]:
        """Yield the objects of a field that must be a list of objects; none when it is not there."""
        values = self.values.get(key, [])
        if not isinstance(values, list):
            self.fail(key, "must be a list")
        for index, value in enumerate(values):
            yield Table.of(value, self.file, f"{self.path(key)}[{index}]")

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string; `default` where it is not there, if one is given."""
        if default is not None and key not in self.values:
            return default
        value = self.any(key)
        if not isinstance(value, str):
            self.fail(key, "must be a string")
        return value

    def word(self, key: str, expected: str, check: Callable[[str], bool]) -> str:
        """Return a string for which `check` holds; `expected` says what that is."""
        value = self.text(key)
        if not check(value):
            self.fail(key, expected)
        return value

    def name(self, key: str) -> str:
        """Return one Python name."""
        return self.word(key, "must be a Python name, such as device", is_name)

    def expression(self, key: str) -> str:
        """Return the text of one Python expression on one line."""
        return self.word(key, "must be one Python expression on one line, such as 'npu' with its quotes", is_expression)

    def flag(self, key: str) -> bool:
        """Return a truth value, False where it is not there."""
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            self.fail(key, "must be true or false")
        return value

    def count(self, key: str) -> int:
        """Return a whole number from 0 up."""
        value = self.any(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            self.fail(key, "must be a whole number from 0 up")
        return value

    def one_of(self, key: str, choices: Mapping[Any, T]) -> T:
        """Return what a field's value stands for among `choices`."""
        value = self.any(key)
        if isinstance(value, bool) or not isinstance(value, str | int) or value not in choices:
            self.fail(key, f"must be {' or '.join(json.dumps(choice) for choice in choices)}")
        return choices[value]

    def texts(self, key: str) -> list[str]:
        """Return a string, or a list of strings, as a list; empty where it is not there."""
        value = self.values.get(key, [])
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(item, str) for item in values):
            self.fail(key, "must be a string or a list of strings")
        return values


def is_expression(text: str) -> bool:
    """Tell whether `text` is one Python expression on one line that can stand as an argument."""
    tree = None if set(text) & set("\n\r\f\0") else _parsed(f"f({text}\n)")
    call = tree.body[0].value if tree and len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.keywords or len(call.args) != 1:
        return False
    return not isinstance(call.args[0], ast.Starred | ast.GeneratorExp | ast.NamedExpr) and not _has_comment(text)


def is_import(text: str) -> bool:
    """Tell whether `text` is one import statement on one line."""
    tree = None if set(text) & set("\n\r\f\0") else _parsed(text.strip())
    return tree is not None and len(tree.body) == 1 and isinstance(tree.body[0], ast.Import | ast.ImportFrom)


def _parsed(text: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _has_comment(text: str) -> bool:
    tokens = tokenize.generate_tokens(io.StringIO(f"({text}\n)").readline)
    return any(token.type == tokenize.COMMENT for token in tokens)


def shown(value: Any) -> str:
    """Return a value of a document for a message: short, and on one line."""
    text = value if isinstance(value, str) else repr(value)
    text = text.encode("utf-8", "backslashreplace").decode().translate({10: "\\n", 13: "\\r"})
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _fail(file: str, place: str, expected: str, value: Any) -> NoReturn:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):  # a date of TOML
        text = str(type(value).__name__)
    raise InputError(f"{file}: {place + ' ' if place else ''}{expected}; got {shown(text)}.")
